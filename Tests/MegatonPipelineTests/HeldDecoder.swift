import Foundation

@testable import MegatonPipeline

/// Makes previews of anything, each when a test lets it.
final class HeldDecoder: ImageDecoding {
    /// The bytes of each preview that has been begun.
    let begun = TestLog<Int>()
    /// The bytes of each picture.
    let decoded = TestLog<Int>()
    private let places = DispatchSemaphore(value: 0)

    /// Lets one preview go on.
    func release() { places.signal() }

    func decode(_ data: Data) throws -> ImageContainer {
        decoded.append(data.count)
        return try TestPipeline.container()
    }

    /// It does not even say that it is one.
    func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? {
        begun.append(data.count)
        places.wait()
        return try? TestPipeline.container()
    }
}
