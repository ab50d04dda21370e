import Foundation
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// Errors are equal if their codes are, and keep the underlying error within a process.
@Suite(.timeLimit(.minutes(1))) struct ErrorEqualityTests {
    private struct Mine: Error, Equatable {
        let number: Int
    }

    private struct Failing: ImageProcessing {
        let identifier = "failing"

        func process(_ image: PlatformImage) -> PlatformImage? { nil }

        func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            throw Mine(number: 2)
        }
    }

    private struct Broken: ImageDecoding {
        func decode(_ data: Data) throws -> ImageContainer { throw Mine(number: 3) }
    }

    // Fault: a loader's error with an infinite delay could not be encoded, so that waiters of its flight waited for the
    // whole lease, and the back-off could not be computed.
    @Test(
        arguments: [
            (Double.infinity, 3_153_600_000), (1e300, 3_153_600_000), (-.infinity, 0), (.nan, nil), (7, 7),
        ] as [(Double, Double?)]
    )
    func delaysCanBeEncoded(_ given: Double, _ kept: Double?) throws {
        var error = ImagePipeline.Error(.unreachable, "busy", retryAfter: given)
        #expect(error.retryAfter == kept)
        error.retryAfter = given
        error.requestedDelay = given
        error.remembered = given
        error.reuse = .init(lifetime: given)
        error.reuse?.lifetime = given
        let read = try JSONDecoder().decode(ImagePipeline.Error.self, from: try JSONEncoder().encode(error))
        #expect([read.retryAfter, read.requestedDelay, read.remembered] == [kept, kept, kept])
        #expect(read.reuse?.lifetime == kept)
    }

    @Test func codesAreCompared() async {
        let task = TestPipeline.make(HeldLoader()).imageTask(with: TestPipeline.url)
        task.cancel()
        let error = await TestPipeline.failure { try await task.image }
        #expect(error == .cancelled && error != .dataIsEmpty)
        await #expect(throws: ImagePipeline.Error.cancelled) { try await task.image }
        do {
            _ = try await task.image
        } catch .cancelled {
            #expect(error?.hashValue == ImagePipeline.Error.cancelled.hashValue)
        } catch {
            Issue.record("\(error)")
        }
    }

    @Test func theErrorBeneathIsKept() async throws {
        let png = TestPipeline.png
        let failing = ImageRequest(id: "a", data: { png }, processors: [Failing()])
        let closure = ImageRequest(id: "b", data: { throw Mine(number: 1) })
        let pipeline = TestPipeline.make(HeldLoader())
        let broken = TestPipeline.make(HeldLoader()) { $0.makeImageDecoder = { _ in Broken() } }
        let errors = [
            await TestPipeline.failure { try await pipeline.data(for: closure) },
            await TestPipeline.failure { try await pipeline.image(for: failing) },
            await TestPipeline.failure { try await broken.image(for: ImageRequest(id: "c", data: { png })) },
        ]
        #expect(errors.map { $0?.underlying as? Mine } == (1...3).map { Mine(number: $0) })
        #expect(errors.map { $0?.code } == [.dataLoadingFailed, .processingFailed, .corruptImage])
    }

    @Test func anErrorOfALoaderIsKept() async throws {
        let loader = HeldLoader()
        let task = TestPipeline.make(loader).imageTask(with: TestPipeline.url)
        await loader.requests.wait(for: 1)
        loader.finish(0, error: Mine(number: 4))
        let error = await TestPipeline.failure { try await task.image }
        #expect(error?.underlying as? Mine == Mine(number: 4))
        let copy = try JSONDecoder().decode(ImagePipeline.Error.self, from: JSONEncoder().encode(error))
        #expect(copy == error && copy.message == error?.message && copy.underlying == nil)
    }
}
