# Language, warnings, optimization and sanitizers: the same for all of ours.
option(SHUNT_WERROR "Warnings are errors" ON)
set(SHUNT_SANITIZE "" CACHE STRING "address (with undefined), undefined, thread")
set_property(CACHE SHUNT_SANITIZE PROPERTY STRINGS
	"" address undefined thread)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Asserts stay: they state what we guarantee, and none is on a hot path.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")

# Warnings; also what headers are checked with.
set(SHUNT_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes
	-Wmissing-prototypes -Wpointer-arith -Wcast-align -Wvla -Wundef)
if(SHUNT_WERROR)
	list(APPEND SHUNT_WARNINGS -Werror)
endif()
# Results are specified to the bit: the compiler may not fuse a*b+c.
add_compile_options(${SHUNT_WARNINGS} -ffp-contract=off)
add_compile_definitions(_GNU_SOURCE)

if(SHUNT_SANITIZE STREQUAL "address")
	set(sanitize -fsanitize=address,undefined)
elseif(SHUNT_SANITIZE STREQUAL "undefined")
	set(sanitize -fsanitize=undefined)
elseif(SHUNT_SANITIZE STREQUAL "thread")
	set(sanitize -fsanitize=thread)
elseif(SHUNT_SANITIZE)
	message(FATAL_ERROR "SHUNT_SANITIZE=${SHUNT_SANITIZE} is not one of "
		"address, undefined, thread")
endif()
if(SHUNT_SANITIZE)
	add_compile_options(${sanitize} -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	add_link_options(${sanitize})
endif()
