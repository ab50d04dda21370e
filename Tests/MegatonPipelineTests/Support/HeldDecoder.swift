import Foundation

@testable import MegatonPipeline

/// Makes previews of any bytes; each waits for `release()`.
final class HeldDecoder: ImageDecoding {
    /// The byte count of each preview that was started.
    let begun = TestLog<Int>()
    /// The byte count of each decoded image.
    let decoded = TestLog<Int>()
    private let places = DispatchSemaphore(value: 0)

    /// Lets one preview continue.
    func release() { places.signal() }

    func decode(_ data: Data) throws -> ImageContainer {
        decoded.append(data.count)
        return try TestPipeline.container()
    }

    /// The container's `isPreview` is not set.
    func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? {
        begun.append(data.count)
        places.wait()
        return try? TestPipeline.container()
    }
}
