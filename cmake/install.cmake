# Installation: libraries, headers, tools, package config and pkg-config file. Included at the end of
# the top-level CMakeLists.txt. The installed tree can be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lamppost_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lamppost)

# $ORIGIN of a file installed in `from`, as an rpath that leads to the libraries.
function(lamppost_installed_rpath target from)
  file(RELATIVE_PATH up /${from} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${up}")
endfunction()

install(TARGETS lamppost EXPORT lamppostTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT lamppostTargets NAMESPACE lamppost:: DESTINATION ${lamppost_package_dir})
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "lamppost_mpi.h" EXCLUDE)

# The MPI companion is an export set of its own: only who asks for it needs MPI.
if(TARGET lamppost_mpi)
  lamppost_installed_rpath(lamppost_mpi ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS lamppost_mpi EXPORT lamppostMpiTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT lamppostMpiTargets NAMESPACE lamppost:: DESTINATION ${lamppost_package_dir})
  install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/include/lamppost/lamppost_mpi.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lamppost)
  get_target_property(lamppost_mpi_links lamppost_mpi INTERFACE_LINK_LIBRARIES)
  set(LAMPPOST_MPI_LANGUAGE C)
  if("${lamppost_mpi_links}" MATCHES "MPI::MPI_CXX")
    set(LAMPPOST_MPI_LANGUAGE CXX)
  endif()
endif()

foreach(tool lamppost-bench lamppost-info lamppost-diag)
  if(TARGET ${tool})
    lamppost_installed_rpath(${tool} ${CMAKE_INSTALL_BINDIR})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lamppost-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/lamppost-config.cmake INSTALL_DESTINATION ${lamppost_package_dir})
# Before 1.0 a new minor version may change the API.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lamppost-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lamppost-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lamppost-config-version.cmake DESTINATION ${lamppost_package_dir})

# pkg-config finds the prefix from the place of the file.
file(RELATIVE_PATH LAMPPOST_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" LAMPPOST_PC_PREFIX "${LAMPPOST_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/lamppost.pc.in ${CMAKE_CURRENT_BINARY_DIR}/lamppost.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lamppost.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
