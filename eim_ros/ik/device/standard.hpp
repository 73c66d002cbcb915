// Standard library for the kernels, because NVRTC does not have one. `cuda.py` replaces <algorithm>, <vector> and other
// headers by this header. Most of it comes from libcu++, NVIDIA's standard library for devices.
//
// Only solutions with a free angle allocate memory. The heap of a GPU is small (8 MB by default), and a solution is
// dropped if its allocation fails. Dropped solutions do no harm, because `list_roots` reports their poses as undecided
// anyway.
#pragma once

#include <cuda/std/algorithm>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/cstring>
#include <cuda/std/initializer_list>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

namespace std {

using namespace cuda::std;

// Insertion sort is fast enough, because the kernels sort only six numbers.
template <class Iterator, class Less>
void sort(Iterator first, Iterator last, Less less) {
    for (Iterator end = first; end != last; ++end) {
        for (Iterator at = end; at != first && less(*at, at[-1]); --at) swap(*at, at[-1]);
    }
}

// A growing list, with only the members that the closed forms use.
template <class T>
class vector {
   public:
    vector() = default;
    vector(const T* first, const T* last) {
        for (; first != last; ++first) push_back(T(*first));
    }
    vector(const vector& other) : vector(other.begin(), other.end()) {}
    vector& operator=(const vector&) = delete;
    ~vector() {
        for (T& element : *this) element.~T();
        free(elements_);
    }

    T* begin() const { return elements_; }
    T* end() const { return elements_ + size_; }
    void push_back(T&& element) {
        T* grown = static_cast<T*>(malloc((size_ + 1) * sizeof(T)));
        if (!grown) return;
        for (size_t i = 0; i < size_; ++i) {
            ::new (grown + i) T(move(elements_[i]));
            elements_[i].~T();
        }
        ::new (grown + size_++) T(move(element));
        free(elements_);
        elements_ = grown;
    }

   private:
    T* elements_ = nullptr;
    size_t size_ = 0;
};

template <class Signature>
class function;

// A callable object of any type. If its memory cannot be allocated, a call does nothing.
template <class... Arguments>
class function<void(Arguments...)> {
   public:
    function() = default;
    template <class Callable>
        requires(!is_same_v<remove_cvref_t<Callable>, function>)
    function(Callable callable) : held_(allocated(callable)), actions_(&kActions<Callable>) {}
    function(const function& other)
        : held_(other.held_ ? other.actions_->copy(other.held_) : nullptr), actions_(other.actions_) {}
    function& operator=(function other) {
        swap(held_, other.held_), swap(actions_, other.actions_);
        return *this;
    }
    ~function() {
        if (held_) actions_->destroy(held_);
    }
    void operator()(Arguments... arguments) const {
        if (held_) actions_->call(held_, arguments...);
    }

   private:
    struct Actions {
        void (*call)(void*, Arguments...);
        void* (*copy)(const void*);
        void (*destroy)(void*);
    };
    template <class Callable>
    static void* allocated(const Callable& callable) {
        void* memory = malloc(sizeof(Callable));
        return memory ? ::new (memory) Callable(callable) : nullptr;
    }
    template <class Callable>
    static void call(void* held, Arguments... arguments) {
        (*static_cast<Callable*>(held))(arguments...);
    }
    template <class Callable>
    static void* copied(const void* held) {
        return allocated(*static_cast<const Callable*>(held));
    }
    template <class Callable>
    static void destroy(void* held) {
        static_cast<Callable*>(held)->~Callable();
        free(held);
    }
    template <class Callable>
    static constexpr Actions kActions{&call<Callable>, &copied<Callable>, &destroy<Callable>};

    void* held_ = nullptr;
    const Actions* actions_ = nullptr;
};

}  // namespace std
