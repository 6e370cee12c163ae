# What the library and the program need from outside.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
if(SHUNT_TESTS)
	pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
endif()

# jemalloc under another name; see the script for why.
execute_process(
	COMMAND "${PROJECT_SOURCE_DIR}/cmake/jemalloc.sh" "${SHUNT_CACHE_DIR}"
		"${CMAKE_C_COMPILER}"
	OUTPUT_VARIABLE SHUNT_JEMALLOC_DIR
	OUTPUT_STRIP_TRAILING_WHITESPACE
	COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
	cmake/jemalloc.sh)
add_library(shunt_jemalloc STATIC IMPORTED)
set_target_properties(shunt_jemalloc PROPERTIES
	IMPORTED_LOCATION "${SHUNT_JEMALLOC_DIR}/lib/libshunt_jemalloc.a"
	INTERFACE_INCLUDE_DIRECTORIES "${SHUNT_JEMALLOC_DIR}/include"
	INTERFACE_LINK_LIBRARIES Threads::Threads)
