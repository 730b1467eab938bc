# Warnings for our own targets and the sanitizer switch.
add_library(rask_flags INTERFACE)
target_compile_options(rask_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
target_include_directories(rask_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(RASK_SANITIZE)
  add_compile_options(-fsanitize=${RASK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RASK_SANITIZE})
endif()
if(RASK_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the fuzzer sees which branches an input took
endif()

# rask_library(name SOURCES ... LINKS ...): a room. LINKS are the rooms and libraries it may include.
function(rask_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC rask_flags ${ARG_LINKS})
endfunction()
