import Foundation
import FoundationNetworking
import MegatonPipeline

extension LoadTrial {
    func conditionalRequest() async throws(ConformanceFailure) {
        let plain = try await completion(of: start(.conditional))
        try requireSuccess(plain, .conditional)
        let record = try await completion(of: start(.conditional, headers: ["If-None-Match": Resource.validator]))
        if record.error != nil { return }
        try require(record.body.isEmpty, "the origin sent a 304, and a body was delivered: \(record.summary)")
        try require(record.statuses.isSubset(of: [304]), "a 304 was delivered with the statuses \(record.statuses)")
    }

    func errorStatus() async throws(ConformanceFailure) {
        for status in [404, 500] {
            let record = try await completion(of: start(.status(status)))
            if record.error != nil { continue }
            try require(
                record.statuses == [status],
                "\(status) was a success with the statuses \(record.statuses): a caller takes it for an image"
            )
        }
        try await settle()
    }

    func completionOnce() async throws(ConformanceFailure) {
        let resources = [Resource.bytes(1000), .chunks(5), .bytes(0), .status(404), .cut(1000)]
        let loads = resources.map { start($0) }
        for load in loads { _ = try await completion(of: load) }
        try await settle()
        for (resource, load) in zip(resources, loads) {
            let record = load.recorder.record
            try requireNoViolation(record)
            try require(record.completions.count == 1, "\(resource.path): \(record.completions.count) completions")
        }
    }

    func brokenBody() async throws(ConformanceFailure) {
        for count in [1, 1000, 100_000] {
            let record = try await completion(of: start(.cut(count)))
            try require(record.error != nil, "half a body of \(2 * count) bytes was a success: \(record.summary)")
            try require(record.body.count <= count, "more bytes were delivered than the origin sent: \(record.summary)")
        }
    }

    func unreachableOrigin() async throws(ConformanceFailure) {
        let record = try await completion(of: start(conformance.origin.unreachableURL))
        try require(record.error != nil, "\(conformance.origin.unreachableURL) was a success: \(record.summary)")
        try require(record.chunks.isEmpty, "there were \(record.summary)")
        try await settle()
    }

    func manyAtOnce() async throws(ConformanceFailure) {
        let resources = (0..<100).map { Resource.bytes(1000 + $0) }
        for (resource, load) in resources.map({ ($0, start($0)) }) {
            try requireSuccess(try await completion(of: load), resource)
        }
    }

    func nothingIsHeld() async throws(ConformanceFailure) {
        for (resource, isCancelled) in [(Resource.bytes(1000), false), (.status(404), false), (.hang(1000), true)] {
            let (ends, witness) = AsyncStream.makeStream(of: Void.self)
            try await load(resource, isCancelled: isCancelled, witness)
            let isGone = await TimeLimit.wait(atMost: conformance.patience) {
                for await _ in ends {}
                return !Task.isCancelled
            }
            let end = isCancelled ? "cancelled" : "completed"
            try require(isGone == true, "\(resource.path): the closures are still retained after it was \(end)")
        }
    }

    /// Runs a load to its end; the stream ends with the last of the load's closures.
    private func load(
        _ resource: Resource,
        isCancelled: Bool,
        _ witness: AsyncStream<Void>.Continuation
    ) async throws(ConformanceFailure) {
        let load = start(resource, recorder: LoadRecorder(onEnd: { witness.finish() }))
        if isCancelled {
            try await wait(for: load, "a chunk") { !$0.chunks.isEmpty }
            load.cancel()
        } else {
            _ = try await completion(of: load)
        }
    }
}
