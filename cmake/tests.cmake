# Tests: tests/test_*.c are executables linked with the internal library and
# cmocka; tests/*.sh get the program's path; the rest tests what is shipped.
function(shunt_add_test name)
	add_test(NAME ${name} COMMAND ${ARGN})
	set_property(TEST ${name} PROPERTY TIMEOUT 600)
endfunction()

file(GLOB scripts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*.sh")
foreach(script IN LISTS scripts)
	get_filename_component(name "${script}" NAME_WE)
	shunt_add_test(${name} "${script}" $<TARGET_FILE:shunt_program>)
endforeach()

if(NOT CMOCKA_FOUND)
	message(STATUS "cmocka is missing (apt-get install libcmocka-dev): "
		"the tests in C are left out")
	return()
endif()

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.c"
	"${PROJECT_SOURCE_DIR}/tests/reference/*.c")
add_library(shunt_test_support STATIC ${sources})
target_include_directories(shunt_test_support PUBLIC
	"${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(shunt_test_support PUBLIC shunt_internal
	PkgConfig::CMOCKA)

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/test_*.c")
foreach(source IN LISTS sources)
	get_filename_component(name "${source}" NAME_WE)
	add_executable(${name} "${source}")
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
	target_link_libraries(${name} PRIVATE shunt_test_support)
	shunt_add_test(${name} ${name})
endforeach()
