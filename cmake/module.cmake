# Modules and their layers. Sources include "module/file.h"; each module gets
# an include root of its own, with one link named after it, and sees only its
# own root and those of the modules it USES. Any other include is an error of
# the compiler: No such file.

set(SHUNT_ROOTS "${PROJECT_BINARY_DIR}/roots")
set(SHUNT_MODULES "")

# shunt_module(NAME FOLDER [USES MODULE...]): the object library shunt_NAME.
function(shunt_module name folder)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "USES")
	shunt_make_root(${name} "${PROJECT_SOURCE_DIR}/${folder}")

	set(roots "${PROJECT_SOURCE_DIR}/include" "${SHUNT_ROOTS}/${name}")
	foreach(used IN LISTS arg_USES)
		if(NOT used IN_LIST SHUNT_MODULES)
			message(FATAL_ERROR "${name} uses ${used}, no lower module")
		endif()
		list(APPEND roots "${SHUNT_ROOTS}/${used}")
	endforeach()

	file(GLOB sources CONFIGURE_DEPENDS
		"${PROJECT_SOURCE_DIR}/${folder}/*.c")
	if(sources)
		shunt_set_instruction_sets(${sources})
		add_library(shunt_${name} OBJECT ${sources})
		target_include_directories(shunt_${name} PRIVATE ${roots})
	endif()
	set(SHUNT_MODULES ${SHUNT_MODULES} ${name} PARENT_SCOPE)
	set(SHUNT_ROOTS_${name} ${roots} PARENT_SCOPE)
	set(SHUNT_FOLDER_${name} ${folder} PARENT_SCOPE)
endfunction()

function(shunt_make_root name folder)
	file(MAKE_DIRECTORY "${SHUNT_ROOTS}/${name}")
	file(CREATE_LINK "${folder}" "${SHUNT_ROOTS}/${name}/${name}" SYMBOLIC)
endfunction()

# Only the kernels that the CPU is asked for may use more than the baseline.
function(shunt_set_instruction_sets)
	if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
		return()
	endif()
	foreach(source IN LISTS ARGN)
		if(source MATCHES "_avx2\\.c$")
			set(flags ${SHUNT_AVX2_FLAGS})
		elseif(source MATCHES "_avx512\\.c$")
			set(flags ${SHUNT_AVX512_FLAGS})
		else()
			continue()
		endif()
		set_property(SOURCE "${source}" PROPERTY COMPILE_OPTIONS ${flags})
	endforeach()
endfunction()

function(shunt_module_options name)
	if(TARGET shunt_${name} AND ARGN)
		target_compile_options(shunt_${name} PRIVATE ${ARGN})
	endif()
endfunction()
