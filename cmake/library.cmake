# The modules' objects are linked twice: as the library users get, which
# exports shunt_* only, and as a static one that lets tests see the rest.
set(objects "")
foreach(name IN LISTS SHUNT_MODULES)
	if(TARGET shunt_${name})
		list(APPEND objects $<TARGET_OBJECTS:shunt_${name}>)
	endif()
endforeach()
set(private_libraries PkgConfig::SODIUM shunt_jemalloc Threads::Threads m)

add_library(shunt SHARED ${objects})
add_library(Shunt::shunt ALIAS shunt)
target_include_directories(shunt INTERFACE
	$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(shunt PRIVATE ${private_libraries})
set_target_properties(shunt PROPERTIES
	VERSION ${PROJECT_VERSION}
	SOVERSION ${PROJECT_VERSION_MAJOR}
	LINKER_LANGUAGE C
	LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/shunt.map")
target_link_options(shunt PRIVATE
	"LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/shunt.map"
	LINKER:--exclude-libs,ALL LINKER:-z,now)
# clang leaves the sanitizers' run time to the executable.
if(NOT DEFINED sanitizers OR CMAKE_C_COMPILER_ID STREQUAL GNU)
	target_link_options(shunt PRIVATE LINKER:-z,defs)
endif()

add_library(shunt_internal STATIC ${objects})
set_target_properties(shunt_internal PROPERTIES LINKER_LANGUAGE C)
target_include_directories(shunt_internal INTERFACE
	"${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
	"${PROJECT_SOURCE_DIR}")
target_link_libraries(shunt_internal PUBLIC ${private_libraries})
