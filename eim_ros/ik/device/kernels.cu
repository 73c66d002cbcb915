// A kernel for GPUs that uses one thread per pose. EIM_NAME and EIM_FUNCTION are one pair of EIM_KERNELS. Each program
// contains a single kernel, because a kernel takes seconds to compile.
#include "kernels.hpp"

// Both compilers must use the same memory layout. The compiler for the processor supplies the sizes on the right.
static_assert(sizeof(eim::device::Request) == EIM_REQUEST_SIZE && sizeof(eim::device::Arm) == EIM_ARM_SIZE);

extern "C" __global__ void __launch_bounds__(EIM_THREADS) EIM_NAME(const eim::device::Request call) {
    const std::int64_t i = blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x;
    if (i < call.n) eim::device::EIM_FUNCTION(call, i);
}
