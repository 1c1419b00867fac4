// Formats in the data folder: a file each, named by what it must hash to.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "server/host/host.h"

namespace varve {

namespace {

constexpr const char* kFormatsName = "/formats";
constexpr size_t kNameBytes = 2 * sizeof(Digest);

std::string text_of(const KeptFormat& format) {
  return {reinterpret_cast<const char*>(format.canonical.data()), format.canonical.size()};
}

std::vector<std::string> names_in(const std::string& folder, int32_t* error) {
  std::vector<std::string> names;
  errno = 0;
  DIR* open_folder = ::opendir(folder.c_str());
  *error = open_folder == nullptr ? errno : 0;
  if (open_folder == nullptr) return names;
  while (const dirent* entry = ::readdir(open_folder)) {
    const std::string name = entry->d_name;
    if (name.size() == kNameBytes) names.push_back(name);  // not ".", nor what a kill left half
  }
  ::closedir(open_folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Failure load_formats(const std::string& folder, uint32_t count_max,
                     std::vector<KeptFormat>* formats, std::vector<std::string>* odd) {
  VARVE_ASSERT(formats != nullptr && formats->empty() && odd != nullptr);
  const std::string path = folder + kFormatsName;
  int32_t error = 0;
  const std::vector<std::string> names = names_in(path, &error);
  if (error == ENOENT) return {};
  if (error != 0) return environment(path + errno_suffix(error) + "; check its permissions");
  for (const std::string& name : names) {
    KeptFormat format;
    std::string content;
    struct stat info = {};
    const bool known = from_hex(name, format.fingerprint.bytes) && formats->size() < count_max;
    const bool regular =
        known && ::stat((path + "/" + name).c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (!regular || !read_file(path + "/" + name, &content)) {
      odd->push_back(name);
      continue;
    }
    const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
    if (Sha256().update(bytes).finish() != format.fingerprint) {
      odd->push_back(name);
      continue;
    }
    format.canonical.assign(bytes.begin(), bytes.end());
    formats->push_back(std::move(format));
  }
  return {};
}

Failure save_format(const std::string& folder, const KeptFormat& format) {
  VARVE_ASSERT(Sha256().update(format.canonical).finish() == format.fingerprint);
  const std::string path = folder + kFormatsName;
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return environment(path + errno_suffix(errno) + "; free space or check the folder");
  }
  const std::string file = path + "/" + to_hex(format.fingerprint.bytes);
  const int32_t error = replace_file(file, text_of(format), Durability::kPowerCut);
  if (error == 0) return {};
  return environment(file + errno_suffix(error) + "; free space or check the folder");
}

}  // namespace varve
