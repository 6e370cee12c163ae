# Targets for the looks of the code: format, format-check, lint.
find_program(CLANG_FORMAT NAMES clang-format)
find_program(RUN_CLANG_TIDY NAMES run-clang-tidy)

function(shunt_tool_target name program package)
	if(program)
		add_custom_target(${name} ${ARGN} VERBATIM USES_TERMINAL
			WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
	else()
		add_custom_target(${name}
			COMMAND ${CMAKE_COMMAND} -E echo
				"${name} needs the package ${package}"
			COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
	endif()
endfunction()

set(files_then "git ls-files -z -- '*.c' '*.h' | xargs -0r")
shunt_tool_target(format "${CLANG_FORMAT}" clang-format
	COMMAND bash -o pipefail -c "${files_then} '${CLANG_FORMAT}' -i")
shunt_tool_target(format-check "${CLANG_FORMAT}" clang-format
	COMMAND bash -o pipefail -c "${files_then} '${CLANG_FORMAT}' --dry-run -Werror")
# Tests are left out: they would take longer than all the rest.
shunt_tool_target(lint "${RUN_CLANG_TIDY}" clang-tidy
	COMMAND ${RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR}
		-extra-arg=-Wno-unknown-warning-option
		"^(?!.*/tests/([^/]*/)?[^/]*$)")
