import Foundation
import MegatonTestSupport

@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Pipelines for tests of images, and their input.
enum TestPipeline {
    static let png = TestImage.quarters(width: 16, height: 8)
    static let url = Self.url("a")

    static func url(_ name: String) -> URL { URL(string: "http://example.com/\(name)")! }

    static func make(
        _ loader: any DataLoading,
        delegate: (any ImagePipeline.Delegate)? = nil,
        _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
    ) -> ImagePipeline {
        var configuration = ImagePipeline.Configuration(dataLoader: loader)
        change(&configuration)
        return ImagePipeline(configuration: configuration, delegate: delegate)
    }

    static func container() throws -> ImageContainer {
        struct NoPicture: Error {}
        guard let image = PlatformImage(width: 2, height: 2, bands: 3, pixels: Data(count: 12)) else {
            throw NoPicture()
        }
        return ImageContainer(image: image)
    }

    /// The pipeline error thrown by `body`, or nil.
    static func failure<Value>(_ body: () async throws -> Value) async -> ImagePipeline.Error? {
        do {
            _ = try await body()
            return nil
        } catch {
            return error as? ImagePipeline.Error
        }
    }

    static func code<Value>(_ body: () async throws -> Value) async -> ImagePipeline.Error.Code? {
        await failure(body)?.code
    }

    /// The same for synchronous code. Its name differs, because in an asynchronous test an overload would resolve to
    /// the async one.
    static func thrownCode(_ body: () throws -> Void) -> ImagePipeline.Error.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? ImagePipeline.Error)?.code
        }
    }
}
