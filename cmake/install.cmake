# SPDX-License-Identifier: MIT
# Rules for cmake --install, find_package(lazyprune) and pkg-config, and for cpack, which makes a tarball and a Debian package. Only the
# programs and the C library depend on the machine. The other installed files, mostly headers, do not.
include(CMakePackageConfigHelpers)

# Sets `out` to the prefix, as the pkg-config file in `folder`/pkgconfig says it. If the folder is relative, so is the prefix. Then the file
# stays right if the prefix is moved.
function(pc_prefix folder out)
  if(IS_ABSOLUTE ${folder})
    set(${out} ${CMAKE_INSTALL_PREFIX} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH way /${folder}/pkgconfig /)
  string(REGEX REPLACE "/$" "" way ${way})
  set(${out} "\${pcfiledir}/${way}" PARENT_SCOPE)
endfunction()
pc_prefix(${CMAKE_INSTALL_DATADIR} pc_prefix)
pc_prefix(${CMAKE_INSTALL_LIBDIR} pc_prefix_c)

# Sets `out` to the folder, as a pkg-config file says it.
function(pc_folder folder out)
  if(NOT IS_ABSOLUTE ${folder})
    set(folder "\${prefix}/${folder}")
  endif()
  set(${out} ${folder} PARENT_SCOPE)
endfunction()
pc_folder(${CMAKE_INSTALL_INCLUDEDIR} pc_includedir)
pc_folder(${CMAKE_INSTALL_LIBDIR} pc_libdir)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/lazyprune)
set(package_components "")
foreach(target IN LISTS components)
  install(TARGETS ${target} EXPORT ${target}-targets FILE_SET HEADERS)
  install(EXPORT ${target}-targets NAMESPACE lazyprune:: DESTINATION ${package_dir})
  string(REPLACE "lazyprune." "" name ${target})
  list(APPEND package_components ${name})
endforeach()
list(REMOVE_ITEM package_components lazyprune)
if(TARGET lazyprune.c) # the C library, which is built with the examples
  install(EXPORT lazyprune.c-targets NAMESPACE lazyprune:: DESTINATION ${package_dir})
  list(APPEND package_components c)
  configure_file(cmake/lazyprune-c.pc.in lazyprune-c.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/lazyprune-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

configure_package_config_file(cmake/lazyprune-config.cmake.in ${PROJECT_BINARY_DIR}/lazyprune-config.cmake INSTALL_DESTINATION ${package_dir})
set(independent ARCH_INDEPENDENT)
if(TARGET lazyprune.c)
  set(independent "")
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lazyprune-config-version.cmake COMPATIBILITY SameMinorVersion ${independent})
install(FILES ${PROJECT_BINARY_DIR}/lazyprune-config.cmake ${PROJECT_BINARY_DIR}/lazyprune-config-version.cmake DESTINATION ${package_dir})

configure_file(cmake/lazyprune.pc.in lazyprune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lazyprune.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Floors 0-2 in one file, for users who copy the library into their project. `cmake --install` makes this file.
set(single_header ${PROJECT_BINARY_DIR}/include/lazyprune_single.hpp)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -D \"ROOT=${PROJECT_SOURCE_DIR}\" -D \"OUTPUT=${single_header}\"
                              -P \"${PROJECT_SOURCE_DIR}/cmake/single_header.cmake\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${single_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  find_program(DPKG dpkg)
  find_program(DPKG_SHLIBDEPS dpkg-shlibdeps) # finds the packages of the libraries that the programs need
  mark_as_advanced(DPKG DPKG_SHLIBDEPS)
  if(DPKG AND DPKG_SHLIBDEPS)
    list(APPEND CPACK_GENERATOR DEB)
    set(CPACK_PACKAGE_CONTACT "The lazyprune developers <lazyprune@example.org>")
    set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
    set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, pkg-config, libxsimd-dev, nlohmann-json3-dev, libpcre2-dev, libutf8proc-dev")
  endif()
  include(CPack)
endif()
