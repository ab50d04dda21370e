import Foundation

@testable import MegatonPipeline

/// A pipeline that delivers previews of a download whose pieces a test sends one by one.
struct PreviewProbe {
    let loader: HeldLoader
    let pipeline: ImagePipeline
    private let pieces: [Data]

    /// - Parameter pieces: pieces of the body, scans of a progressive JPEG.
    init(
        _ pieces: [Data],
        delegate: (any ImagePipeline.Delegate)? = nil,
        _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
    ) {
        self.pieces = pieces
        loader = HeldLoader(pieces.reduce(Data(), +))
        pipeline = TestPipeline.make(loader, delegate: delegate) {
            $0.isProgressiveDecodingEnabled = true
            $0.progressiveDecodingInterval = .zero
            change(&$0)
        }
    }

    /// Starts a task, and returns once the origin has been asked.
    func begin(_ request: ImageRequest = ImageRequest(url: TestPipeline.url)) async -> ImageTask {
        let task = pipeline.imageTask(with: request)
        await loader.requests.wait(for: 1)
        return task
    }

    /// Sends a piece, and returns once its processing has ended.
    func send(_ index: Int) async {
        loader.send(pieces[index])
        await idle()
    }

    func idle() async {
        while pipeline.renders.pendingCount + pipeline.renders.runningCount > 0, !Task.isCancelled {
            await Task.yield()
        }
    }

    /// Sends the rest in one piece, and ends the download.
    func finish(from index: Int) {
        loader.send(pieces[index...].reduce(Data(), +))
        loader.finish(0)
    }
}

extension ImageTask {
    /// Waits for the end.
    ///
    /// - Returns: the number of previews.
    func countPreviews(in events: AsyncStream<Event>) async throws -> Int {
        _ = try await response
        return await events.reduce(into: 0) { count, event in
            if case .preview = event { count += 1 }
        }
    }
}
