# Fuzzers: tests/fuzz/NAME.c becomes build/fuzz/NAME.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*.c")
foreach(source IN LISTS sources)
	get_filename_component(name "${source}" NAME_WE)
	add_executable(${name} "${source}")
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
	target_include_directories(${name} PRIVATE
		"${PROJECT_SOURCE_DIR}/tests")
	target_link_libraries(${name} PRIVATE shunt_internal)
	target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
