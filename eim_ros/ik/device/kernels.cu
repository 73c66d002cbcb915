// A kernel for GPUs, with a thread for each pose. EIM_NAME and EIM_FUNCTION are one pair of EIM_KERNELS. A program
// contains only one kernel, because each takes seconds to compile.
#include "kernels.hpp"

// Both compilers must agree on the layout. The sizes on the right come from the compiler for the processor.
static_assert(sizeof(eim::device::Request) == EIM_REQUEST_SIZE && sizeof(eim::device::Arm) == EIM_ARM_SIZE);

extern "C" __global__ void __launch_bounds__(EIM_THREADS) EIM_NAME(const eim::device::Request call) {
    const std::int64_t i = blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x;
    if (i < call.n) eim::device::EIM_FUNCTION(call, i);
}
