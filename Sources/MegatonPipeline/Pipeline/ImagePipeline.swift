internal import Foundation
internal import FoundationNetworking
internal import Logging

/// Fetches a source once, decodes it once, and makes all renditions that are asked for; what several requests want at
/// the same time is done once.
///
/// ```
/// renditions(_:for:) ──► coalesce in the process ──► begin: hit | wait | lead
///                                                             │ lead
///                           original ◄── coalesce ── begin ◄──┤
///                              │ fetch slots                  │
///                              └──► render slots: one decode ─┴──► finish: keep, wake those who wait
/// ```
public final class ImagePipeline: Sendable {
    public let configuration: Configuration
    private let renderer: Renderer
    private let files: ThreadPool
    private let fetchSlots: AsyncSemaphore
    private let renditionFlights = Coalescer<ImageResponse>()
    private let originalFlights = Coalescer<Original>()

    /// Threads that read local files.
    private static let fileThreads = 4
    /// Each round either settles a key or waits for somebody; a request that is still not served after so many looks
    /// is not going to be.
    private static let roundLimit = 64

    /// - Throws: where libvips cannot be used.
    public init(_ configuration: Configuration = Configuration()) throws(Error) {
        self.configuration = configuration
        renderer = Renderer(
            engine: try VipsEngine(),
            limits: configuration.renderLimits,
            types: configuration.types,
            threads: ThreadPool(
                name: "megaton-render",
                count: configuration.renderConcurrency,
                stackSize: 8 << 20,
                onThreadExit: VipsRuntime.endThread
            )
        )
        files = ThreadPool(name: "megaton-file", count: Self.fileThreads)
        fetchSlots = AsyncSemaphore(configuration.fetchConcurrency)
    }

    /// A pipeline whose configuration is changed in a closure: `try ImagePipeline { $0.dataLoader = … }`.
    public convenience init(_ configure: (inout Configuration) -> Void) throws(Error) {
        var configuration = Configuration()
        configure(&configuration)
        try self.init(configuration)
    }

    deinit { files.stop() }

    /// How long the longest of the renders under way has been running; nil if none is.
    public var longestRunningRender: Duration? { renderer.longestRunning }

    /// Makes the renditions of a source, or finds them.
    ///
    /// - Returns: one response for each rendition, in their order.
    /// - Throws: the first thing that went wrong; nothing is thrown for a single rendition alone, as all of them come
    ///   from one decode.
    public func renditions(
        _ renditions: [Rendition],
        for request: ImageRequest,
        metrics: PipelineMetrics = PipelineMetrics()
    ) async throws(Error) -> [ImageResponse] {
        let source = try await source(of: request)
        let keys = renditions.map { source.key.rendition($0) }
        let wanted = Dictionary(zip(keys, renditions), uniquingKeysWith: { first, _ in first })
        var found: [CacheKey: ImageResponse] = [:]
        for _ in 0..<Self.roundLimit where found.count < wanted.count {
            let open = keys.filter { found[$0] == nil }.uniqued()
            let (led, joined) = renditionFlights.enter(open)
            if !led.isEmpty {
                let settled = await lead(led.map { ($0, wanted[$0]!) }, source, metrics)
                for (key, outcome) in settled { renditionFlights.land(key, outcome) }
                for (key, outcome) in settled { found[key] = try outcome.get() }
            }
            for (key, flight) in joined {
                metrics.update { $0.waits += 1 }
                switch await flight.outcome() {
                case .success(let response):
                    metrics.update { $0.cacheHits += 1 }
                    found[key] = response.fromCache()
                // Whoever led was cancelled, which is nothing to us: look again.
                case .failure(let error) where error.code == .cancelled && !Task.isCancelled: break
                case .failure(let error): throw error
                }
            }
        }
        return try keys.map { key throws(Error) in
            guard let response = found[key] else {
                throw Error(.waitTimedOut, "\(source) was being made elsewhere, again and again; try later.")
            }
            return response.named(wanted[key] ?? response.rendition)
        }
    }

    // MARK: - Renditions

    /// Settles keys that nobody else in this process is working on.
    private func lead(
        _ open: [(key: CacheKey, rendition: Rendition)],
        _ source: Source,
        _ metrics: PipelineMetrics
    ) async -> [CacheKey: Result<ImageResponse, Error>] {
        let deadline = ContinuousClock.now + configuration.waitBudget
        var settled: [CacheKey: Result<ImageResponse, Error>] = [:]
        var open = open
        for _ in 0..<Self.roundLimit where !open.isEmpty {
            var led: [(lead: FlightLead, rendition: Rendition)] = []
            var awaited: [FlightWait] = []
            for (decision, entry) in zip(await configuration.flights.begin(open.map(\.key)), open) {
                switch decision {
                case .hit(let cached):
                    metrics.update { $0.cacheHits += 1 }
                    settled[entry.key] = .success(ImageResponse(entry.rendition, cached))
                case .failed(let error): settled[entry.key] = .failure(error)
                case .lead(let lead): led.append((lead, entry.rendition))
                case .wait(let flight): awaited.append(flight)
                }
            }
            if !led.isEmpty { settled.merge(await make(led, source, metrics)) { _, new in new } }
            open.removeAll { settled[$0.key] != nil }
            if ContinuousClock.now >= deadline || Task.isCancelled {
                for flight in awaited { await configuration.flights.abandon(flight) }
                break
            }
            for flight in awaited {
                metrics.update { $0.waits += 1 }
                await configuration.flights.wait(for: flight)
            }
        }
        for (key, _) in open {
            settled[key] = .failure(
                Task.isCancelled
                    ? Error(.cancelled, "The request for \(source) was cancelled.")
                    : Error(.waitTimedOut, "\(source) was being made elsewhere for too long; try later.")
            )
        }
        return settled
    }

    /// Makes renditions whose flights are ours, and ends the flights whatever happens.
    private func make(
        _ led: [(lead: FlightLead, rendition: Rendition)],
        _ source: Source,
        _ metrics: PipelineMetrics
    ) async -> [CacheKey: Result<ImageResponse, Error>] {
        do throws(Error) {
            let original = try await original(source, metrics)
            // The original goes to the cache while we render: whoever waits for it is woken by the end of that.
            async let stored: Void = original.storeIfNeeded()
            let images: [EncodedImage]
            do throws(Error) {
                images = try await renderer.render(
                    led.map(\.rendition),
                    from: original.data,
                    context: source.description
                )
            } catch {
                await stored
                throw error
            }
            await stored
            metrics.update { $0.renders += images.count }
            let lifetime = configuration.cachePolicy.keepsRenditions ? original.lifetime : nil
            await configuration.flights.finish(
                zip(led, images).map { led, image in
                    (led.lead, lifetime.map { CachedData(image, led.rendition.format, lifetime: $0) })
                }
            )
            return Dictionary(
                uniqueKeysWithValues: zip(led, images).map { led, image in
                    (led.lead.key, .success(ImageResponse(led.rendition, image)))
                }
            )
        } catch {
            await configuration.flights.fail(led.map(\.lead), error: error)
            return Dictionary(uniqueKeysWithValues: led.map { ($0.lead.key, .failure(error)) })
        }
    }

    // MARK: - Originals

    private func original(_ source: Source, _ metrics: PipelineMetrics) async throws(Error) -> Original {
        switch source.place {
        case .file(let file):
            let data: Data = try await onFileThread { [access = configuration.fileAccess, limit] () throws(Error) in
                try access.read(file, limit: limit)
            }
            metrics.update { $0.bytesIn += data.count }
            return Original(data: data, lifetime: configuration.localLifetime.inSeconds, store: nil)
        case .inline(let data):
            return Original(data: data, lifetime: configuration.localLifetime.inSeconds, store: nil)
        case .remote(let request):
            return try await remoteOriginal(source, request, metrics)
        }
    }

    private func remoteOriginal(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics
    ) async throws(Error) -> Original {
        for _ in 0..<Self.roundLimit {
            let (led, joined) = originalFlights.enter([source.key])
            if led.isEmpty, let (_, flight) = joined.first {
                metrics.update { $0.waits += 1 }
                switch await flight.outcome() {
                case .success(let original):
                    metrics.update { $0.originalHits += 1 }
                    return Original(data: original.data, lifetime: original.lifetime, store: nil)
                case .failure(let error) where error.code == .cancelled && !Task.isCancelled: continue
                case .failure(let error): throw error
                }
            }
            let outcome = await leadOriginal(source, request, metrics)
            originalFlights.land(source.key, outcome)
            return try outcome.get()
        }
        throw Error(.waitTimedOut, "\(source) was being fetched elsewhere, again and again; try later.")
    }

    private func leadOriginal(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics
    ) async -> Result<Original, Error> {
        let deadline = ContinuousClock.now + configuration.waitBudget
        for _ in 0..<Self.roundLimit {
            switch await configuration.flights.begin([source.key]).first {
            case .hit(let cached):
                metrics.update { $0.originalHits += 1 }
                return .success(Original(data: cached.data, lifetime: cached.metadata.lifetime, store: nil))
            case .failed(let error): return .failure(error)
            case .lead(let lead): return await fetch(lead, request, metrics)
            case .wait(let flight):
                guard ContinuousClock.now < deadline else {
                    await configuration.flights.abandon(flight)
                    return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere for too long."))
                }
                metrics.update { $0.waits += 1 }
                await configuration.flights.wait(for: flight)
                if Task.isCancelled { return .failure(Error(.cancelled, "The request for \(source) was cancelled.")) }
            case nil: return .failure(Error(.waitTimedOut, "The coordinator of flights gave no decision."))
            }
        }
        return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere, again and again."))
    }

    private func fetch(
        _ lead: FlightLead,
        _ request: URLRequest,
        _ metrics: PipelineMetrics
    ) async -> Result<Original, Error> {
        do throws(Error) {
            let (data, response) = try await fetchSlots.withPlace { () throws(Error) in
                metrics.update { $0.originFetches += 1 }
                return try await configuration.dataLoader.data(for: request, limit: limit)
            }
            metrics.update { $0.bytesIn += data.count }
            let url = request.url?.absoluteString ?? ""
            guard !data.isEmpty else { throw Error(.dataIsEmpty, "\(url) answered with an empty body.") }
            let headers = (response as? HTTPURLResponse)?.lowercasedHeaders ?? [:]
            let lifetime = HTTPFreshness(headers: headers).lifetime
            let keeps =
                configuration.cachePolicy.keepsOriginals && AssetType(data).map(configuration.types.contains) == true
            let entry = keeps ? lifetime.map { CachedData(data, headers: headers, lifetime: $0) } : nil
            let flights = configuration.flights
            return .success(
                Original(data: data, lifetime: lifetime) { await flights.finish([(lead, entry)]) }
            )
        } catch {
            await configuration.flights.fail([lead], error: error)
            return .failure(error)
        }
    }

    private var limit: Int { configuration.maximumDataSize }

    // MARK: - Sources

    private func source(of request: ImageRequest) async throws(Error) -> Source {
        try configuration.urlPolicy.check(request.url)
        switch request.url.scheme?.lowercased() {
        case "file":
            let path = request.url.path(percentEncoded: false)
            let host = request.url.host() ?? ""
            guard host.isEmpty || host == "localhost" else {
                throw Error(.invalidURL, "file://\(host)/… names another host; a file: URL looks like file:///path.")
            }
            let file = try await onFileThread {
                [access = configuration.fileAccess] () throws(Error) in try access.file(at: path)
            }
            return Source(
                place: .file(file),
                key: .original(of: request, revision: "\(file.size) \(file.modified)"),
                description: path
            )
        case "data":
            return Source(
                place: .inline(try DataURL.decode(request.url)),
                key: .original(of: request),
                description: "a data: URL"
            )
        default:
            var urlRequest = URLRequest(url: request.url)
            for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            return Source(
                place: .remote(urlRequest),
                key: .original(of: request),
                description: request.url.absoluteString
            )
        }
    }

    private func onFileThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws(Error) -> Value
    ) async throws(Error) -> Value {
        do {
            return try await files.run { try work() }
        } catch let error as Error {
            throw error
        } catch {
            throw Error(.cancelled, "Cancelled while waiting for a file.")
        }
    }
}

extension ImagePipeline {
    /// Fetches a source into the cache and makes nothing of it: Nuke's prefetching, on its own.
    ///
    /// - Throws: what went wrong with the fetch.
    public func prefetch(_ request: ImageRequest, metrics: PipelineMetrics = PipelineMetrics()) async throws(Error) {
        let original = try await original(try await source(of: request), metrics)
        await original.storeIfNeeded()
    }
}
