# SPDX-License-Identifier: MIT
# Runs check.cmake on the kernels that nvcc compiles, with the standard library of g++, and with that of g++ 13 if it is installed. Also tests that
# check.cmake can fail: each of these tests has output of ptxas and cuobjdump with one fault.
set(check ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR})
set(script -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake)
set(texts ${CMAKE_CURRENT_BINARY_DIR}/compiled)

if(NVCC)
  if(CUOBJDUMP AND NVDISASM)
    list(APPEND check -D CUOBJDUMP=${CUOBJDUMP})
  else()
    message(STATUS "backend/cuda/compiled does not check the use of tensor cores, because cuobjdump or nvdisasm is missing")
  endif()
  add_test(NAME backend/cuda/compiled COMMAND ${check} -D NVCC=${NVCC} -D OUTPUT=${texts} ${script})
else()
  lazyprune_skipped(backend/cuda/compiled "nvcc (NVIDIA's CUDA toolkit)")
endif()
find_program(GCC_13 g++-13)
mark_as_advanced(GCC_13)
if(NVCC AND GCC_13)
  add_test(NAME backend/cuda/compiled.gcc_13 COMMAND ${check} -D NVCC=${NVCC} -D HOST=${GCC_13} -D OUTPUT=${texts}_gcc_13 ${script})
else()
  lazyprune_skipped(backend/cuda/compiled.gcc_13 "nvcc and g++-13")
endif()

# compiled_text(name expected kernel memory used [sass]): adds a test of check.cmake on the output of ptxas for a kernel with this mangled name, and on
# its disassembly if `sass` is given. The test passes if check.cmake prints `expected`.
function(compiled_text name expected kernel memory used)
  file(WRITE ${texts}/${name}.ptxas "ptxas info    : Compiling entry function '${kernel}' for 'sm_80'\nptxas info    : Function properties for ${kernel}\n\
    ${memory}\nptxas info    : Used ${used}, used 1 barriers, 456 bytes cmem[0]\n")
  set(sass "")
  if(ARGN)
    file(WRITE ${texts}/${name}.sass ${ARGN})
    set(sass -D SASS=${texts}/${name}.sass)
  endif()
  add_test(NAME backend/cuda/compiled.${name} COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D PTXAS=${texts}/${name}.ptxas ${sass} -D LEAST=1 ${script})
  set_tests_properties(backend/cuda/compiled.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")
endfunction()

set(tensor _ZN9lazyprune2v06device13attend_tensorILj128ELj64ELb1EEEvNS1_14attention_taskE)
set(groups _ZN9lazyprune2v06device17attend_warpgroupsILj128ELb1EEEvNS1_14attention_taskE)
set(exact _ZN9lazyprune2v06device12attend_exactItLj64ELj4EEEvNS1_14attention_taskE)
set(convert _ZN9lazyprune2v06device12convert_rowsIftEEvNS1_8row_spanIKT_EEmNS3_IT0_EE)
set(norm _ZN9lazyprune2v06device9norm_rowsItEEvNS1_8row_spanIKfEEPS4_fmNS3_IT_EE)
set(none "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads")
set(hmma "        /*3960*/     HMMA.16816.F32.BF16 R148, R140.reuse, R144, RZ ; \n")
set(hgmma "        /*3960*/     HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ; \n")
set(ffma "        /*3960*/     FFMA R148, R140, R144, R148 ; \n")
compiled_text(good "1 kernels of attention on tensor cores, each with HMMA or HGMMA" ${tensor} ${none} "168 registers" "Function : ${tensor}\n${hmma}Function : ${convert}\n${ffma}")
compiled_text(without_sass "is not checked, because cuobjdump or nvdisasm is missing" ${tensor} ${none} "168 registers")
compiled_text(spill "attend_tensor[^\n]*: not all in registers" ${tensor} "0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads" "168 registers")
compiled_text(stack "attend_tensor[^\n]*: not all in registers" ${tensor} "16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" "168 registers")
compiled_text(tensor_registers "attend_tensor[^\n]*: 169 registers, more than 168" ${tensor} ${none} "169 registers")
compiled_text(exact_registers "attend_exact[^\n]*: 97 registers, more than 96" ${exact} ${none} "97 registers")
compiled_text(other_registers "convert_rows[^\n]*: 33 registers, more than 32" ${convert} ${none} "33 registers")
compiled_text(norm_registers "norm_rows[^\n]*: 57 registers, more than 56" ${norm} ${none} "57 registers")
compiled_text(shared_memory "convert_rows[^\n]*: 128 bytes smem, of which its launch does not know" ${convert} ${none} "32 registers, 128 bytes smem")
compiled_text(groups "1 kernels of attention on tensor cores, each with HMMA or HGMMA" ${groups} ${none} "255 registers"
              "Function : ${groups}\n${hgmma}Function : ${groups}\n${ffma}")
compiled_text(no_wgmma "attend_warpgroups[^\n]*: no HMMA or HGMMA" ${groups} ${none} "255 registers" "Function : ${groups}\n${ffma}Function : ${tensor}\n${hmma}")
compiled_text(serialized "wgmma.mma_async instructions are serialized due to a call" ${groups} ${none}
              "255 registers\nptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call")
compiled_text(no_tensor_cores "attend_tensor[^\n]*: no HMMA" ${tensor} ${none} "168 registers"
              "Function : ${tensor}\n${ffma}Function : ${convert}\n${hmma}")
