# Tests: each tests/test_*.c is a program and a ctest entry; and what the build
# itself promises (layers, headers, exported names, installation).
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
set(SHUNT_TEST_TIMEOUT 300 CACHE STRING "Seconds that a test may take")
set(scripts ${PROJECT_SOURCE_DIR}/tests/build)

# shunt_add_test(NAME LABEL COMMAND...)
function(shunt_add_test name label)
	add_test(NAME ${name} COMMAND ${ARGN})
	set_tests_properties(${name} PROPERTIES
		LABELS ${label} TIMEOUT ${SHUNT_TEST_TIMEOUT})
endfunction()

file(GLOB sources CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/tests/support/*.c)
add_library(shunt_test_support STATIC ${sources})
target_link_libraries(shunt_test_support PUBLIC
	shunt_internal PkgConfig::CMOCKA Threads::Threads m)
target_include_directories(shunt_test_support PUBLIC
	${PROJECT_SOURCE_DIR}/tests)

function(shunt_add_test_program name source)
	add_executable(${name} ${source} $<TARGET_OBJECTS:shunt_reference>)
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
	target_link_libraries(${name} PRIVATE
		shunt_test_support shunt_internal)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
foreach(source IN LISTS sources)
	get_filename_component(name ${source} NAME_WE)
	shunt_add_test_program(${name} ${source})
	string(REGEX REPLACE "^test_" "" short ${name})
	shunt_add_test(${short} unit ${name})
endforeach()

# The contract of transports over RDMA once more for each form of devices that
# the simulator knows; the first is what they run over anyway.
file(READ ${PROJECT_SOURCE_DIR}/tests/support/fake_forms.c forms)
string(REGEX MATCHALL "\\.name = \"[a-z_]+\"" forms "${forms}")
list(POP_FRONT forms)
foreach(form IN LISTS forms)
	string(REGEX REPLACE "\\.name = \"([a-z_]+)\"" "\\1" form "${form}")
	foreach(name IN ITEMS far transport)
		shunt_add_test(${name}_${form} unit test_${name} verbs:*)
		set_tests_properties(${name}_${form} PROPERTIES
			ENVIRONMENT SHUNT_TEST_FORM=${form})
	endforeach()
endforeach()

# Programs that the cases of tests/vm run in guests.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/vm/*.c)
foreach(source IN LISTS sources)
	get_filename_component(name ${source} NAME_WE)
	shunt_add_test_program(${name} ${source})
endforeach()

find_program(BASH bash REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh)
foreach(source IN LISTS sources)
	get_filename_component(name ${source} NAME_WE)
	shunt_add_test(${name} unit ${BASH} ${source}
		$<TARGET_FILE:shunt_program>)
endforeach()

# The fuzzers of tests/fuzz, which need clang.
option(SHUNT_FUZZ "Build tests/fuzz with libFuzzer (clang only)" OFF)
if(SHUNT_FUZZ)
	file(GLOB sources CONFIGURE_DEPENDS
		${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
	foreach(source IN LISTS sources)
		get_filename_component(name ${source} NAME_WE)
		add_executable(${name} ${source})
		set_target_properties(${name} PROPERTIES
			RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
		target_link_libraries(${name} PRIVATE shunt_internal)
		target_link_options(${name} PRIVATE -fsanitize=fuzzer)
	endforeach()
endif()

# ---- what the build promises ---------------------------------------------

# shunt_include_flags(OUT DIR...)
function(shunt_include_flags out)
	list(TRANSFORM ARGN PREPEND -I)
	set(${out} ${ARGN} PARENT_SCOPE)
endfunction()

set(check_flags -std=gnu17 -D_GNU_SOURCE ${SHUNT_WARNINGS})
foreach(module IN LISTS SHUNT_MODULES)
	shunt_include_flags(includes ${SHUNT_INCLUDES_${module}})
	set(folders)
	foreach(other IN LISTS SHUNT_MODULES)
		list(APPEND folders
			${PROJECT_SOURCE_DIR}/${SHUNT_FOLDER_${other}})
	endforeach()
	string(REPLACE ";" " " sees "${SHUNT_SEES_${module}}")
	shunt_add_test(layers_${module} build
		${BASH} ${scripts}/layers.sh ${CMAKE_C_COMPILER} "${sees}"
		${folders} -- ${includes})
	shunt_add_test(headers_${module} build
		${BASH} ${scripts}/headers.sh
		${PROJECT_SOURCE_DIR}/${SHUNT_FOLDER_${module}}
		${CMAKE_C_COMPILER} -x c ${check_flags} ${includes}
		-isystem ${jemalloc_dir}/include)
endforeach()

shunt_include_flags(includes ${PROJECT_SOURCE_DIR}/include
	${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/bench
	${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
foreach(folder IN ITEMS bench tests/reference tests/support)
	string(REPLACE "/" "_" name ${folder})
	shunt_add_test(headers_${name} build
		${BASH} ${scripts}/headers.sh ${PROJECT_SOURCE_DIR}/${folder}
		${CMAKE_C_COMPILER} -x c ${check_flags} ${includes})
endforeach()

find_program(CXX_COMPILER NAMES c++ g++ clang++)
set(public_flags -Wall -Wextra -Werror -pedantic
	-I${PROJECT_SOURCE_DIR}/include)
shunt_add_test(headers_public_c build
	${BASH} ${scripts}/headers.sh ${PROJECT_SOURCE_DIR}/include/shunt
	${CMAKE_C_COMPILER} -x c -std=c17 ${public_flags})
if(CXX_COMPILER)
	shunt_add_test(headers_public_cxx build
		${BASH} ${scripts}/headers.sh
		${PROJECT_SOURCE_DIR}/include/shunt
		${CXX_COMPILER} -x c++ -std=c++17 ${public_flags})
endif()

shunt_add_test(names_in_documents build
	${BASH} ${scripts}/names.sh ${PROJECT_SOURCE_DIR})

# A sanitized library loads only into sanitized programs.
if(NOT SHUNT_SANITIZE)
	find_package(Python3 COMPONENTS Interpreter REQUIRED)
	shunt_add_test(library_loads_anywhere build
		${Python3_EXECUTABLE} ${scripts}/load.py $<TARGET_FILE:shunt>)
	shunt_add_test(library_exports_only_shunt build
		${BASH} ${scripts}/exports.sh $<TARGET_FILE:shunt>)
	shunt_add_test(installed build
		${BASH} ${scripts}/installed.sh ${CMAKE_COMMAND}
		${PROJECT_BINARY_DIR} ${scripts}/installed
		${CMAKE_C_COMPILER} ${PROJECT_VERSION})
endif()
