// A shared object, loaded for as long as this lives.
#pragma once

#include <stdexcept>
#include <string>

struct LoadError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class SharedObject {
public:
    // Throws LoadError when the file cannot be loaded or needs a symbol that nobody has.
    explicit SharedObject(const std::string& path);
    ~SharedObject();
    SharedObject(SharedObject&& other) noexcept;
    SharedObject(const SharedObject&) = delete;
    SharedObject& operator=(const SharedObject&) = delete;

    // Throws LoadError when there is no such function.
    template <typename Signature>
    Signature* function(const char* name) const {
        return reinterpret_cast<Signature*>(symbol(name));
    }

private:
    void* symbol(const char* name) const;

    std::string path_;
    void* handle_;
};
