// A folder of a test, filled with small files and removed again.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/host/host.h"

namespace varve::test {

class HostFolder {
 public:
  HostFolder() {
    std::string name = ::testing::TempDir() + "varve-host-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~HostFolder() { std::filesystem::remove_all(path_); }
  HostFolder(const HostFolder&) = delete;
  HostFolder& operator=(const HostFolder&) = delete;
  const std::string& path() const { return path_; }
  void make(const std::string& folder) {
    std::filesystem::create_directories(path_ + "/" + folder);
  }
  void put(const std::string& file, const std::string& content) {
    make(file.substr(0, file.rfind('/') == std::string::npos ? 0 : file.rfind('/')));
    std::ofstream(path_ + "/" + file) << content;
  }

 private:
  std::string path_;
};

}  // namespace varve::test
