import Foundation

@testable import MegatonPipeline

struct CountingDecoder: ImageDecoding {
    private let decoder: any ImageDecoding
    private let counts: TaskTestBox<[String: Int]>

    init(_ decoder: any ImageDecoding, _ counts: TaskTestBox<[String: Int]>) {
        self.decoder = decoder
        self.counts = counts
    }

    func decode(_ data: Data) throws -> ImageContainer {
        counts.withLock { $0["decode", default: 0] += 1 }
        return try decoder.decode(data)
    }
}
