// Work on many poses, divided among threads: chunks of equal size, taken one after the other by whichever thread is
// free.
//
// What becomes of a chunk follows from the chunk alone, so results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "numerics/pack.hpp"

namespace eim {

// Calls work(number of the chunk, first, last) for each chunk of n things; what a call throws, one of them at least, is
// thrown again here when all threads have ended.
template <class Work>
inline void for_chunks(Index n, Index size, int n_threads, Work work) {
    const Index n_chunks = (n + size - 1) / size;
    std::atomic<Index> following = 0;
    std::exception_ptr failure;
    std::mutex guard;
    const auto run = [&] {
        try {
            for (Index chunk = following++; chunk < n_chunks; chunk = following++) {
                work(chunk, chunk * size, std::min(n, (chunk + 1) * size));
            }
        } catch (...) {
            const std::lock_guard lock(guard);
            failure = std::current_exception(), following = n_chunks;
        }
    };
    std::vector<std::thread> others;
    try {
        for (int k = 1; k < std::min<Index>(n_threads, n_chunks); ++k) others.emplace_back(run);
    } catch (const std::system_error&) {  // no more threads to be had: those that are there do it
    }
    run();
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace eim
