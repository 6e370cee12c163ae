# What is installed: the library, its headers, the shunt program, and the two
# ways to find them, pkg-config and CMake.
include(CMakePackageConfigHelpers)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Shunt)

install(TARGETS shunt EXPORT ShuntTargets
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS shunt_program
	RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/shunt
	DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h")

install(EXPORT ShuntTargets NAMESPACE Shunt:: DESTINATION ${cmake_folder})
write_basic_package_version_file(
	${PROJECT_BINARY_DIR}/ShuntConfigVersion.cmake
	VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/ShuntConfig.cmake.in
	${PROJECT_BINARY_DIR}/ShuntConfig.cmake
	INSTALL_DESTINATION ${cmake_folder})
install(FILES
	${PROJECT_BINARY_DIR}/ShuntConfig.cmake
	${PROJECT_BINARY_DIR}/ShuntConfigVersion.cmake
	DESTINATION ${cmake_folder})

# Relative to where shunt.pc lies, so that a moved tree still works.
file(RELATIVE_PATH prefix_from_pc
	${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/shunt.pc.in ${PROJECT_BINARY_DIR}/shunt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/shunt.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
