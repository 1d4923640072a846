// Side streams are kept for the life of the process: as many for each device as were borrowed at a time.
#include <mutex>
#include <vector>

#include "side_stream.h"

namespace ksmm::hopper {

struct SideStream::Lane {
  int device;
  cudaStream_t stream;
  cudaEvent_t main, own;
};

namespace {

struct Capture {
  cudaStreamCaptureStatus status;
  unsigned long long id;
};

cudaError_t capture_of(cudaStream_t stream, Capture* capture) {
  *capture = {cudaStreamCaptureStatusNone, 0};
  return cudaStreamGetCaptureInfo(stream, &capture->status, &capture->id);
}

struct Idle {
  std::mutex mutex;
  std::vector<SideStream::Lane*> lanes;
};
Idle& idle() {
  static Idle* const all = new Idle;  // never destroyed: the driver may be gone by then
  return *all;
}

// A stream that was in a capture stays there until that ends: another one cannot use it meanwhile.
bool suits(const SideStream::Lane& lane, int device, const Capture& wanted) {
  if (lane.device != device) return false;
  Capture own;
  if (capture_of(lane.stream, &own) != cudaSuccess) return cudaGetLastError(), false;
  return own.status == cudaStreamCaptureStatusNone ||
         (own.status == cudaStreamCaptureStatusActive && wanted.status == own.status && wanted.id == own.id);
}

cudaError_t create(int device, SideStream::Lane** lane) {
  int least = 0, greatest = 0;
  SideStream::Lane made = {device, nullptr, nullptr, nullptr};
  cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&made.stream, cudaStreamNonBlocking, greatest);
  for (cudaEvent_t* event : {&made.main, &made.own})
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
  if (error == cudaSuccess) {
    *lane = new SideStream::Lane(made);
    return error;
  }
  for (const cudaEvent_t event : {made.main, made.own})
    if (event != nullptr) cudaEventDestroy(event);
  if (made.stream != nullptr) cudaStreamDestroy(made.stream);
  return error;
}

cudaError_t borrow(cudaStream_t main, SideStream::Lane** lane) {
  int device = 0;
  Capture wanted;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = capture_of(main, &wanted);
  if (error != cudaSuccess) return error;
  {
    const std::lock_guard<std::mutex> guard(idle().mutex);
    std::vector<SideStream::Lane*>& lanes = idle().lanes;
    for (auto each = lanes.begin(); each != lanes.end(); ++each)
      if (suits(**each, device, wanted)) {
        *lane = *each;
        lanes.erase(each);
        return cudaSuccess;
      }
  }
  return create(device, lane);
}

}  // namespace

SideStream::SideStream(cudaStream_t main) : main_(main), error_(borrow(main, &lane_)) {
  if (error_ != cudaSuccess) cudaGetLastError();  // none is left for whoever asks next
}

SideStream::~SideStream() {
  if (lane_ == nullptr) return;
  const std::lock_guard<std::mutex> guard(idle().mutex);
  idle().lanes.push_back(lane_);
}

cudaStream_t SideStream::stream() const { return lane_->stream; }

cudaError_t SideStream::wait_for_main() {
  const cudaError_t error = cudaEventRecord(lane_->main, main_);
  return error == cudaSuccess ? cudaStreamWaitEvent(lane_->stream, lane_->main, 0) : error;
}

cudaError_t SideStream::join() {
  const cudaError_t error = cudaEventRecord(lane_->own, lane_->stream);
  return error == cudaSuccess ? cudaStreamWaitEvent(main_, lane_->own, 0) : error;
}

}  // namespace ksmm::hopper
