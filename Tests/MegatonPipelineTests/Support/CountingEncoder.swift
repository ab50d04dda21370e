import Foundation

@testable import MegatonPipeline
@testable import MegatonRendering

struct CountingEncoder: ImageEncoding {
    private let counts: TaskTestBox<[String: Int]>

    init(_ counts: TaskTestBox<[String: Int]>) { self.counts = counts }

    func encode(_ image: PlatformImage) -> Data? {
        counts.withLock { $0["encode", default: 0] += 1 }
        return ImageEncoders.Vips(format: .png).encode(image)
    }
}
