import Synchronization

/// Cost of one request, counted while it runs; complete also if the request fails.
public final class PipelineMetrics: Sendable {
    /// The counts.
    public struct Counts: Sendable, Equatable {
        /// Requests to an origin, failed ones included.
        public var originFetches = 0
        /// Of these, requests that the origin answered with "not modified": the cached entry is still valid.
        public var revalidations = 0
        /// Bytes received from origins and files.
        public var bytesIn = 0
        /// Renditions made.
        public var renders = 0
        /// Of these, renditions made by the planes engine; libvips made the others.
        package var rendersByPlanes = 0
        /// Of the renders, renditions that the planes engine left to libvips: the image is damaged, though not so badly
        /// that libvips refuses it.
        package var planarFallbacks = 0
        /// The renders by engine and format.
        package var rendersByKind: [RenderKind: Int] = [:]
        /// Renditions from a cache, or from another request's work.
        public var cacheHits = 0
        /// Originals from a cache, or from another request's fetch.
        public var originalHits = 0
        /// Of the hits of both kinds, stale ones: served during a revalidation, or because the origin failed.
        public var staleHits = 0
        /// Waits for another request's flight.
        public var waits = 0
        /// Background work that was dropped because `refreshConcurrency` was used up: images not stored, stale entries
        /// not revalidated.
        public var dropped = 0
        /// Hits of both kinds by the ``DataCaching/layerName`` of the cache that had them, if it is known.
        public var layers: [String: Int] = [:]

        mutating func addRenders(_ images: [(rendition: Rendition, image: EncodedImage)]) {
            renders += images.count
            rendersByPlanes += images.count { $0.image.maker == .planes }
            planarFallbacks += images.count { $0.image.maker == .libvipsForPlanes }
            for (rendition, image) in images {
                let kind = RenderKind(isByPlanes: image.maker == .planes, format: rendition.format)
                rendersByKind[kind, default: 0] += 1
            }
        }

        mutating func addHit(in layer: String?) {
            if let layer { layers[layer, default: 0] += 1 }
        }
    }

    /// An engine with the format that it has encoded.
    package struct RenderKind: Sendable, Hashable {
        /// Whether the planes engine has made the rendition; otherwise libvips has.
        package let isByPlanes: Bool
        package let format: Rendition.Format
    }

    private struct State {
        var counts = Counts()
        var timings: LoadTimings?
        var waits = QueueWaits()
        var times = StageTimes()
        var fetchStart: ContinuousClock.Instant?
        var lastFetch: Duration?
        var notes: [String] = []
        var facts: SourceFacts?
    }

    private let state = Mutex(State())
    /// Tracer and parent of the spans of the request's own work; nil without a tracer.
    let spans: SpanScope?

    /// Creates metrics of zero. The spans of the request's work have the current span of the task as their parent.
    public convenience init() { self.init(spans: SpanSource().current()) }

    /// - Parameter spans: tracer and parent of the spans; nil for none.
    package init(spans: SpanScope?) { self.spans = spans }

    /// Costs of the requests so far.
    public var counts: Counts { state.withLock { $0.counts } }
    /// Timings of the last request to an origin, if the loader reports them (``TimedDataLoading``); nil if there was
    /// none.
    public var timings: LoadTimings? { state.withLock { $0.timings } }
    /// Time in queues of the work that was done for this request.
    public var waits: QueueWaits { state.withLock { $0.waits } }

    /// Duration of the request's own work, by kind.
    public var times: StageTimes { state.withLock { $0.times } }
    /// When the request to an origin that is under way began; nil if none is.
    package var fetchStart: ContinuousClock.Instant? { state.withLock { $0.fetchStart } }
    /// Duration of the last request to an origin that has ended; nil if there was none.
    package var lastFetch: Duration? { state.withLock { $0.lastFetch } }
    /// Remarks on the renditions, without duplicates, at most eight: see ``RenditionResponse/notes``.
    public var notes: [String] { state.withLock { $0.notes } }

    /// Adds remarks, without duplicates.
    package func add(notes: [String]) {
        if notes.isEmpty { return }
        state.withLock { $0.notes = RenderNotes.merged($0.notes, notes) }
    }

    /// Facts about the source: see ``RenditionResponse/facts``.
    package var facts: SourceFacts? {
        get { state.withLock { $0.facts } }
        set { state.withLock { $0.facts = newValue } }
    }

    func add(_ time: Duration, to stage: WritableKeyPath<StageTimes, Duration>) {
        state.withLock { $0.times[keyPath: stage] += time }
    }

    /// Adds the duration of the body to a stage.
    package func timing<Value, Failure: Error>(
        _ stage: WritableKeyPath<StageTimes, Duration>,
        _ body: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let start = ContinuousClock.now
        defer { add(start.duration(to: .now), to: stage) }
        return try await body()
    }

    /// Adds the duration of a request to an origin.
    func timingFetch<Value>(_ body: () async -> Value) async -> Value {
        let start = ContinuousClock.now
        state.withLock { $0.fetchStart = start }
        defer {
            state.withLock { state in
                let time = start.duration(to: .now)
                (state.fetchStart, state.lastFetch) = (nil, time)
                state.times.fetching += time
            }
        }
        return await body()
    }

    func update(_ change: (inout Counts) -> Void) { state.withLock { change(&$0.counts) } }

    func set(_ timings: LoadTimings?) { state.withLock { $0.timings = timings } }

    /// Completes the timings of a load that ended early, of which those of its first bytes are known.
    func endTimings(after total: Duration, _ bytes: Int) {
        state.withLock { state in
            guard let known = state.timings else { return }
            let soFar = known.nameLookup + known.connect + known.tls + known.firstByte
            state.timings?.bytes = bytes
            state.timings?.total = total.inSeconds
            state.timings?.transfer = max(0, total.inSeconds - soFar)
        }
    }

    /// Records the time that the body waits in queues.
    func notingWaits<Value>(
        for stage: ImageError.Stage,
        _ body: () async throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        let recorder = QueueWaitRecorder(self, stage: stage)
        return try await QueueWaitRecorder.$current.withValue(recorder) { () async -> Result<Value, ImageError> in
            do throws(ImageError) { return .success(try await body()) } catch { return .failure(error) }
        }.get()
    }
}

extension PipelineMetrics: QueueWaitSink {
    package func addWait(_ time: Duration, before stage: ImageError.Stage) {
        state.withLock { state in
            switch stage {
            case .load: state.waits.load += time
            case .decode: state.waits.decode += time
            case .process: state.waits.process += time
            case .encode, .store: break
            }
        }
    }

    package func addMemoryWait(_ time: Duration) { state.withLock { $0.waits.memory += time } }

    package func addRendering(_ time: Duration) { add(time, to: \.rendering) }
}

/// Time that work waited in queues, by the stage that was about to start. The duration of the stage is not included.
///
/// A start without a queue takes some microseconds as well.
public struct QueueWaits: Sendable, Hashable {
    /// Waits for the rate limiter, and for a fetch slot.
    public var load = Duration.zero
    /// Waits for a render thread to decode on. Renditions are decoded, resized and encoded in one slot: they wait here.
    public var decode = Duration.zero
    /// Waits for a render thread, before each processor.
    public var process = Duration.zero
    /// Waits for memory to decode in; see ``MemoryBudget``. A render that does not get it at once gives its thread
    /// back: the wait for another one is part of this wait, also if the memory has been free before.
    public var memory = Duration.zero

    package init() {}
}

/// Duration of a request's own work, by kind. Waits, and work of other requests that it shares, are not included: see
/// ``QueueWaits`` for the waits in queues.
public struct StageTimes: Sendable, Hashable {
    /// Requests to origins, from the request to the last byte of the response, and reads of files.
    public var fetching = Duration.zero
    /// Work on render threads: headers, decoding, scaling, encoding.
    public var rendering = Duration.zero
    /// Writes of outputs. The pipeline writes none: its caller adds to this.
    public var storing = Duration.zero

    package init() {}
}
