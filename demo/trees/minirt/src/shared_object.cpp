#include "shared_object.h"

#include <dlfcn.h>

#include <utility>

SharedObject::SharedObject(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        throw LoadError(dlerror());
    }
}

SharedObject::~SharedObject() {
    if (handle_ != nullptr) {
        dlclose(handle_);
    }
}

SharedObject::SharedObject(SharedObject&& other) noexcept
    : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, nullptr)) {}

void* SharedObject::symbol(const char* name) const {
    void* address = dlsym(handle_, name);
    if (address == nullptr) {
        throw LoadError(path_ + ": no function " + name);
    }
    return address;
}
