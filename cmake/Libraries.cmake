# The objects of all modules, linked twice: libshunt.so for users, which shows
# shunt_* and nothing else, and libshunt_internal.a for tests, which shows all.
#
# There is no static library to install: it would have to carry jemalloc and
# all internal names into the user's program.
set(public_include
	$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(map ${PROJECT_SOURCE_DIR}/cmake/shunt.map)

add_library(shunt SHARED ${SHUNT_OBJECTS})
set_target_properties(shunt PROPERTIES
	VERSION ${PROJECT_VERSION}
	SOVERSION ${PROJECT_VERSION_MAJOR}
	LINKER_LANGUAGE C
	LINK_DEPENDS ${map}
	LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(shunt INTERFACE ${public_include})
target_link_libraries(shunt PRIVATE
	PkgConfig::SODIUM PkgConfig::VERBS shunt_jemalloc)
# nodelete: jemalloc's thread exit handlers outlive a dlclose.
target_link_options(shunt PRIVATE
	-Wl,--version-script=${map}
	-Wl,--exclude-libs,ALL
	-Wl,-z,nodelete,-z,relro,-z,now)
# clang's sanitizer runtime is in the program only.
if(NOT (SHUNT_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES "Clang"))
	target_link_options(shunt PRIVATE -Wl,-z,defs)
endif()

add_library(shunt_internal STATIC EXCLUDE_FROM_ALL ${SHUNT_OBJECTS})
set_target_properties(shunt_internal PROPERTIES LINKER_LANGUAGE C)
target_include_directories(shunt_internal INTERFACE
	${PROJECT_SOURCE_DIR}/include
	${PROJECT_SOURCE_DIR}/src
	${PROJECT_SOURCE_DIR})
target_link_libraries(shunt_internal INTERFACE
	PkgConfig::SODIUM PkgConfig::VERBS shunt_jemalloc)
