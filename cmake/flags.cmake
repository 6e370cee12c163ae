# Compiler flags of everything that is built here.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release CACHE STRING "Type of build" FORCE)
endif()
# Asserts stay in: they are not on hot paths.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(SHUNT_KERNEL_FLAGS $<$<CONFIG:Release>:-O3>)

add_compile_definitions(_GNU_SOURCE)
# Results are specified to the bit, so nothing may be fused.
add_compile_options(-ffp-contract=off -Wall -Wextra -Wshadow
	-Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-align
	-Wvla -Wundef)
if(SHUNT_WERROR)
	add_compile_options(-Werror)
endif()

if(SHUNT_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
		message(FATAL_ERROR "SHUNT_FUZZ needs clang: CC=clang cmake ...")
	endif()
	if(SHUNT_SANITIZE STREQUAL "thread")
		message(FATAL_ERROR "SHUNT_FUZZ comes with address, not thread")
	endif()
	add_compile_options(-fsanitize=fuzzer-no-link)
	set(sanitizers address,undefined)
elseif(SHUNT_SANITIZE STREQUAL "address")
	set(sanitizers address,undefined)
elseif(SHUNT_SANITIZE STREQUAL "thread")
	set(sanitizers thread)
elseif(SHUNT_SANITIZE)
	message(FATAL_ERROR "SHUNT_SANITIZE is address or thread, "
		"not '${SHUNT_SANITIZE}'")
endif()
if(DEFINED sanitizers)
	add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer
		-fno-sanitize-recover=all)
	add_link_options(-fsanitize=${sanitizers})
endif()

# Instruction sets beyond the baseline, by the names of files.
set(SHUNT_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(SHUNT_AVX512_FLAGS
	-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mf16c)
