import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// The choice of a decoder for an image.
@Suite(.timeLimit(.minutes(1))) struct DecoderRegistryTests {
    private struct Named: ImageDecoding {
        let name: String
        func decode(_ data: Data) throws -> ImageContainer { throw CancellationError() }
    }

    private let context = ImageDecodingContext(request: "https://example.org/a.png", data: Data([1]))

    private func name(_ registry: ImageDecoderRegistry) -> String? {
        let decoder = registry.decoder(for: context)
        return (decoder as? Named)?.name ?? decoder.map { "\(type(of: $0))" }
    }

    @Test func theLastOneRegisteredThatWantsItGetsIt() {
        let registry = ImageDecoderRegistry()
        #expect(name(registry) == "Default")
        registry.register { _ in Named(name: "first") }
        registry.register { _ in Named(name: "second") }
        registry.register { $0.data.count > 1 ? Named(name: "third") : nil }
        #expect(name(registry) == "second")
    }

    @Test func aRegistrationCanBeTakenBack() {
        let registry = ImageDecoderRegistry()
        registry.register { _ in Named(name: "first") }
        let token = registry.register { _ in Named(name: "second") }
        registry.unregister(token)
        registry.unregister(token)
        #expect(name(registry) == "first")
    }

    // As in Nuke, the default decoder is a registration like the others.
    @Test func aClearedRegistryHasNoDecoder() {
        let registry = ImageDecoderRegistry()
        registry.register { _ in Named(name: "first") }
        registry.clear()
        #expect(name(registry) == nil)
        registry.register { _ in Named(name: "second") }
        #expect(name(registry) == "second")
    }

    @Test func thereMayBeNoDecoder() {
        #expect(name(ImageDecoderRegistry(fallback: { _ in nil })) == nil)
    }

    @Test func eachPipelineHasItsOwn() {
        let (one, other) = (ImageDecoderRegistry(), ImageDecoderRegistry())
        one.register { _ in Named(name: "mine") }
        #expect(name(one) == "mine" && name(other) == "Default")
    }

    /// A closure may use the registry that calls it: closures are called without the lock held.
    @Test func closuresAreAskedWithoutTheLock() {
        let registry = ImageDecoderRegistry()
        let asked = Atomic(0)
        registry.register { _ in
            asked.add(1, ordering: .relaxed)
            let token = registry.register { _ in nil }
            registry.unregister(token)
            return nil
        }
        #expect(name(registry) == "Default" && asked.load(ordering: .relaxed) == 1)
    }

    @Test func theDefaultKnowsTheRequestsThumbnail() throws {
        var request: ImageRequest = "https://example.org/a.png"
        request.thumbnail = .init(maxPixelSize: 8)
        let data = TestImage.quarters(width: 32, height: 16)
        let registry = ImageDecoderRegistry(types: [.png])
        let decoder = try #require(registry.decoder(for: ImageDecodingContext(request: request, data: data)))
        #expect(try decoder.decode(data).image.size == PixelSize(width: 8, height: 4))
        #expect { try decoder.decode(Data([0xFF, 0xD8, 0xFF])) } throws: {
            ($0 as? ImagePipeline.Error)?.code == .unsupportedFormat
        }
    }
}
