internal import Foundation
import Synchronization

/// Renders on its own threads: sniff, probe, limits, plan, execute.
final class Renderer: Sendable {
    private let engine: any RenderEngine
    private let limits: RenderLimits
    private let types: Set<AssetType>
    private let threads: ThreadPool
    private let running = Mutex<[Int: ContinuousClock.Instant]>([:])
    private let nextID = Atomic(0)

    init(engine: any RenderEngine, limits: RenderLimits, types: Set<AssetType>, threads: ThreadPool) {
        self.engine = engine
        self.limits = limits
        self.types = types
        self.threads = threads
    }

    deinit { threads.stop() }

    /// How long the longest of the renders under way has been running. One that outlives its limit by far hangs in a
    /// codec that cannot be told to stop.
    var longestRunning: Duration? {
        let now = ContinuousClock.now
        return running.withLock { $0.values.map { $0.duration(to: now) }.max() }
    }

    /// Runs something on one of the render threads. Where the calling task is cancelled before it has begun, it never does.
    func run<Value: Sendable>(
        _ work: @escaping @Sendable () throws(ImagePipeline.Error) -> Value
    ) async throws(ImagePipeline.Error) -> Value {
        do {
            return try await threads.run { try work() }
        } catch let error as ImagePipeline.Error {
            throw error
        } catch {
            throw ImagePipeline.Error(.cancelled, "Cancelled while waiting for a render thread.")
        }
    }

    /// - Parameter context: URL, status and media type, for messages.
    func render(
        _ renditions: [Rendition],
        from data: Data,
        context: String
    ) async throws(ImagePipeline.Error) -> [EncodedImage] {
        let cancellation = Cancellation()
        do {
            return try await withTaskCancellationHandler {
                try await threads.run { [self] in try renderNow(renditions, data, context, cancellation) }
            } onCancel: {
                cancellation.cancel()
            }
        } catch let error as ImagePipeline.Error {
            throw error
        } catch {
            throw ImagePipeline.Error(.cancelled, "The rendering of \(context) was cancelled.")
        }
    }

    private func renderNow(
        _ renditions: [Rendition],
        _ data: Data,
        _ context: String,
        _ cancellation: Cancellation
    ) throws(ImagePipeline.Error) -> [EncodedImage] {
        let id = nextID.add(1, ordering: .relaxed).newValue
        let start = ContinuousClock.now
        running.withLock { $0[id] = start }
        defer { running.withLock { $0[id] = nil } }
        let type = try sniff(data, context)
        do throws(ImagePipeline.Error) {
            let probe = try engine.probe(data, type: type)
            try limits.check(probe)
            // The time counts from here: what waited for a thread has not begun.
            let deadline = RenderDeadline(start + limits.time)
            cancellation.attach(deadline)
            return try engine.execute(RenderPlan(probe, renditions), data, deadline: deadline)
        } catch {
            var error = error
            error.message = "\(context): \(error.message)"
            throw error
        }
    }

    private func sniff(_ data: Data, _ context: String) throws(ImagePipeline.Error) -> AssetType {
        guard !data.isEmpty else {
            throw ImagePipeline.Error(.dataIsEmpty, "\(context): there are no bytes.")
        }
        let type = AssetType(data)
        if let type, types.contains(type) { return type }
        let known = types.map(\.description).sorted().joined(separator: ", ")
        throw ImagePipeline.Error(
            .unsupportedFormat,
            "\(context): the bytes are \(type?.description ?? "of no known kind") (they begin \(Self.excerpt(data))); "
                + "images of these kinds are read: \(known)."
        )
    }

    /// The first bytes for people: text where it is text, else hex.
    private static func excerpt(_ data: Data) -> String {
        let head = data.prefix(24)
        if head.allSatisfy({ (32..<127).contains($0) || $0 == 10 || $0 == 13 || $0 == 9 }) {
            return "\""
                + String(decoding: head, as: UTF8.self).split(whereSeparator: \.isNewline).joined(separator: " ") + "\""
        }
        return head.prefix(12).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: " ")
    }
}

/// Cancels a render that may not have begun yet.
private final class Cancellation: Sendable {
    private let state = Mutex<(deadline: RenderDeadline?, isCancelled: Bool)>((nil, false))

    func attach(_ deadline: RenderDeadline) {
        let isCancelled = state.withLock { state in
            state.deadline = deadline
            return state.isCancelled
        }
        if isCancelled { deadline.cancel() }
    }

    func cancel() {
        let deadline = state.withLock { state in
            state.isCancelled = true
            return state.deadline
        }
        deadline?.cancel()
    }
}
