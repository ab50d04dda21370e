import Synchronization

/// What one request cost, counted while it runs: complete also where the request fails.
public final class PipelineMetrics: Sendable {
    /// The counts.
    public struct Counts: Sendable, Equatable {
        /// Requests to an origin, failed ones included.
        public var originFetches = 0
        /// Of these, requests that the origin answered with "not modified": what was kept still holds.
        public var revalidations = 0
        /// Bytes received from origins and files.
        public var bytesIn = 0
        /// Renditions that were made.
        public var renders = 0
        /// Of these, renditions that the planes engine made; libvips made the others.
        public var rendersByPlanes = 0
        /// Of the renders, renditions that planes were to make and left to libvips: the picture is damaged, though not so that
        /// libvips refuses it.
        public var rendersLeftByPlanes = 0
        /// Renditions that a cache, or somebody else's work, had.
        public var cacheHits = 0
        /// Originals that a cache, or somebody else's fetch, had.
        public var originalHits = 0
        /// Of these hits of both kinds, those that were stale: served while the origin is asked, or as it fails.
        public var staleHits = 0
        /// Waits for somebody else's flight.
        public var waits = 0
        /// What was left undone behind the answer, as `refreshConcurrency` was used up: images that were not kept, stale
        /// renditions that were not refreshed.
        public var dropped = 0
        /// The hits of both kinds by the ``DataCaching/layerName`` of the cache that had them, where it is known.
        public var layers: [String: Int] = [:]

        mutating func addRenders(_ images: [EncodedImage]) {
            renders += images.count
            rendersByPlanes += images.count { $0.maker == .planes }
            rendersLeftByPlanes += images.count { $0.maker == .libvipsForPlanes }
        }

        mutating func addHit(in layer: String?) {
            if let layer { layers[layer, default: 0] += 1 }
        }
    }

    private struct State {
        var counts = Counts()
        var timings: LoadTimings?
        var waits = QueueWaits()
        var times = StageTimes()
        var notes: [String] = []
    }

    private let state = Mutex(State())

    public init() {}

    public var counts: Counts { state.withLock { $0.counts } }
    /// Of the last request to an origin, by a loader that tells them (``TimedDataLoading``); nil where there was none.
    public var timings: LoadTimings? { state.withLock { $0.timings } }
    /// Of what was done on this request's account.
    public var waits: QueueWaits { state.withLock { $0.waits } }

    /// How long the request's own work took, by its kind.
    public var times: StageTimes { state.withLock { $0.times } }
    /// Remarks on the renditions, each once: see ``RenditionResponse/notes``. At most ``RenderNotes/maximumCount``.
    public var notes: [String] { state.withLock { $0.notes } }

    /// Adds remarks that are not there yet.
    package func add(notes: [String]) {
        if notes.isEmpty { return }
        state.withLock { $0.notes = RenderNotes.merged($0.notes, notes) }
    }

    func add(_ time: Duration, to stage: WritableKeyPath<StageTimes, Duration>) {
        state.withLock { $0.times[keyPath: stage] += time }
    }

    /// Adds the time that the body takes to a stage's.
    package func timing<Value, Failure: Error>(
        _ stage: WritableKeyPath<StageTimes, Duration>,
        _ body: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let start = ContinuousClock.now
        defer { add(start.duration(to: .now), to: stage) }
        return try await body()
    }

    func update(_ change: (inout Counts) -> Void) { state.withLock { change(&$0.counts) } }

    func updateWaits(_ change: (inout QueueWaits) -> Void) { state.withLock { change(&$0.waits) } }

    func set(_ timings: LoadTimings) { state.withLock { $0.timings = timings } }

    /// Notes what the body waits in queues.
    func notingWaits<Value>(
        for stage: ImagePipeline.Error.Stage,
        _ body: () async throws(ImagePipeline.Error) -> Value
    ) async throws(ImagePipeline.Error) -> Value {
        let account = QueueAccount(metrics: self, stage: stage)
        return try await QueueAccount.$current.withValue(account) { () async -> Result<Value, ImagePipeline.Error> in
            do throws(ImagePipeline.Error) { return .success(try await body()) } catch { return .failure(error) }
        }.get()
    }
}
