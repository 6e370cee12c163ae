# The shunt program and the examples: clients of the library that see its
# public headers only. The program checks results against the reference of
# the tests, which shares no code with the library.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c"
	"${PROJECT_SOURCE_DIR}/tests/reference/*.c")
file(RELATIVE_PATH to_library
	"/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")

add_executable(shunt_program ${sources})
set_target_properties(shunt_program PROPERTIES
	OUTPUT_NAME shunt
	INSTALL_RPATH "$ORIGIN/${to_library}")
target_include_directories(shunt_program PRIVATE
	"${PROJECT_SOURCE_DIR}/bench" "${PROJECT_SOURCE_DIR}/tests"
	"${PROJECT_SOURCE_DIR}")
target_link_libraries(shunt_program PRIVATE shunt PkgConfig::CJSON
	PkgConfig::SODIUM Threads::Threads m)

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
foreach(source IN LISTS sources)
	get_filename_component(name "${source}" NAME_WE)
	add_executable(example_${name} "${source}")
	set_target_properties(example_${name} PROPERTIES
		OUTPUT_NAME ${name}
		RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
	target_link_libraries(example_${name} PRIVATE shunt Threads::Threads m)
endforeach()
