# The shunt program and the examples: users of the public headers only.

# The reference shares no code with the library; tests and the bench check
# against it.
file(GLOB sources CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/tests/reference/*.c)
add_library(shunt_reference OBJECT ${sources})
target_include_directories(shunt_reference
	PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(shunt_reference PUBLIC m)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
shunt_simd_flags(sources)
# Its loops take most of a run where they are not vectorised.
set_source_files_properties(${PROJECT_SOURCE_DIR}/bench/expert.c PROPERTIES
	COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
add_executable(shunt_program ${sources})
file(RELATIVE_PATH library_from_bin
	${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(shunt_program PROPERTIES
	OUTPUT_NAME shunt
	RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
	BUILD_RPATH_USE_ORIGIN ON
	INSTALL_RPATH "$ORIGIN/${library_from_bin}")
target_link_libraries(shunt_program PRIVATE
	shunt shunt_reference PkgConfig::CJSON PkgConfig::SODIUM
	Threads::Threads m)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(source IN LISTS sources)
	get_filename_component(name ${source} NAME_WE)
	add_executable(example_${name} ${source})
	set_target_properties(example_${name} PROPERTIES
		OUTPUT_NAME ${name}
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
	target_link_libraries(example_${name} PRIVATE
		shunt Threads::Threads m)
endforeach()
