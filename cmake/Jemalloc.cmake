# The private jemalloc, as the target shunt_jemalloc; made by jemalloc.sh and
# shared by all build directories through a cache.
if(DEFINED ENV{XDG_CACHE_HOME})
	set(default_cache $ENV{XDG_CACHE_HOME}/shunt)
elseif(DEFINED ENV{HOME})
	set(default_cache $ENV{HOME}/.cache/shunt)
else()
	set(default_cache ${PROJECT_SOURCE_DIR}/.cache)
endif()
set(SHUNT_CACHE_DIR ${default_cache} CACHE PATH
	"Where the private jemalloc is kept between builds")

execute_process(
	COMMAND ${PROJECT_SOURCE_DIR}/cmake/jemalloc.sh
		${SHUNT_CACHE_DIR} ${CMAKE_C_COMPILER}
	OUTPUT_VARIABLE jemalloc_dir
	OUTPUT_STRIP_TRAILING_WHITESPACE
	RESULT_VARIABLE jemalloc_status)
if(NOT jemalloc_status EQUAL 0)
	message(FATAL_ERROR "No private jemalloc: see above.")
endif()

add_library(shunt_jemalloc STATIC IMPORTED)
set_target_properties(shunt_jemalloc PROPERTIES
	IMPORTED_LOCATION ${jemalloc_dir}/lib/libshunt_jemalloc.a
	INTERFACE_INCLUDE_DIRECTORIES ${jemalloc_dir}/include
	INTERFACE_LINK_LIBRARIES "Threads::Threads;m")
