# Folders as modules, and the layers between them.
#
# Internal includes read "memory/segment.h". For each module the build has an
# include root, stage/<module>, with one symlink named after the module. A
# module is given its own root and those of the lower modules that it names,
# and nothing else: a forbidden include fails as "No such file".
set(SHUNT_MODULES)
set(SHUNT_OBJECTS)

# shunt_module(NAME FOLDER [LOWER...])
function(shunt_module name folder)
	set(root ${PROJECT_BINARY_DIR}/stage/${name})
	file(MAKE_DIRECTORY ${root})
	file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${name}
		SYMBOLIC)
	set(includes ${PROJECT_SOURCE_DIR}/include ${root})
	foreach(lower IN LISTS ARGN)
		list(APPEND includes ${PROJECT_BINARY_DIR}/stage/${lower})
	endforeach()
	set(SHUNT_INCLUDES_${name} ${includes} PARENT_SCOPE)
	set(SHUNT_SEES_${name} ${name} ${ARGN} PARENT_SCOPE)
	set(SHUNT_FOLDER_${name} ${folder} PARENT_SCOPE)
	set(SHUNT_MODULES ${SHUNT_MODULES} ${name} PARENT_SCOPE)

	file(GLOB sources CONFIGURE_DEPENDS
		${PROJECT_SOURCE_DIR}/${folder}/*.c)
	shunt_simd_flags(sources)
	if(NOT sources)
		return()
	endif()
	add_library(shunt_${name} OBJECT ${sources})
	target_include_directories(shunt_${name} PRIVATE ${includes})
	target_link_libraries(shunt_${name} PRIVATE
		PkgConfig::SODIUM PkgConfig::VERBS shunt_jemalloc)
	if(name MATCHES "^(quant|dispatch|combine)$")
		target_compile_options(shunt_${name} PRIVATE
			$<$<CONFIG:Release>:-O3>)
	endif()
	set(SHUNT_OBJECTS ${SHUNT_OBJECTS} $<TARGET_OBJECTS:shunt_${name}>
		PARENT_SCOPE)
endfunction()

# Files named for an instruction set are compiled for it, and only where it
# can exist; who calls them is decided at run time. Loops that the compiler makes
# vectors of stay at 256 bits, for the reason that quant/rows_256_template.h gives.
function(shunt_simd_flags variable)
	set(sources ${${variable}})
	if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
		list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.c$")
	endif()
	foreach(source IN LISTS sources)
		if(source MATCHES "_avx2\\.c$")
			set_source_files_properties(${source} PROPERTIES
				COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
		elseif(source MATCHES "_avx512\\.c$")
			set_source_files_properties(${source} PROPERTIES
				COMPILE_OPTIONS "-mavx2;-mf16c;-mavx512f;\
-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=256")
		endif()
	endforeach()
	set(${variable} ${sources} PARENT_SCOPE)
endfunction()
