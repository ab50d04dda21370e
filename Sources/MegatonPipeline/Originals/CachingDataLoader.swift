public import Foundation
public import FoundationNetworking
import Synchronization

/// Adds a cache to a loader: stores whole responses with their header fields, for as long as these allow.
///
/// For loaders used without a pipeline, or behind a pipeline without a cache: a pipeline with a cache does more
/// (revalidation, stale entries, single flight). Only plain requests are looked up: GET without a range, a condition,
/// cookies or credentials. A request with a `reload…` policy or with `no-cache` is fetched, and its response is stored.
/// `max-age` of a request limits the age of its response, and a request with `no-store` bypasses the cache.
public final class CachingDataLoader: TimedDataLoading {
    private let loader: any DataLoading
    private let cache: any DataCaching
    private let maximumSize: Int
    private let key: @Sendable (URLRequest) -> String?
    private let heuristicLifetime: Duration
    private let now: @Sendable () -> Date

    /// - Parameters:
    ///   - maximumSize: size of the largest body that is stored, bytes.
    ///   - key: returns the cache key of a request; nil bypasses the cache.
    ///   - heuristicLifetime: as in `ImagePipeline.Configuration`.
    ///   - now: returns the time, for the age of entries.
    public init(
        _ loader: any DataLoading,
        cache: any DataCaching,
        maximumSize: Int = 64 * 1024 * 1024,
        key: @escaping @Sendable (URLRequest) -> String? = CachingDataLoader.key(for:),
        heuristicLifetime: Duration = .seconds(24 * 3600),
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.loader = loader
        self.cache = cache
        self.maximumSize = maximumSize
        self.key = key
        self.heuristicLifetime = heuristicLifetime
        self.now = now
    }

    /// Cache key of the URL and all header fields except cache directives, so that no request gets a response that the
    /// origin might have varied (`Vary`); nil if the request bypasses the cache.
    public static func key(for request: URLRequest) -> String? {
        let fields = request.allHTTPHeaderFields ?? [:]
        let names = Set(fields.keys.map { $0.lowercased() })
        let own: Set<String> = [
            "range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
            "authorization",
            "cookie", "megaton-credential",
        ]
        guard (request.httpMethod ?? "GET").uppercased() == "GET", request.httpBody == nil, let url = request.url,
            names.isDisjoint(with: own), RequestCachePolicy(request).allowsStorage
        else { return nil }
        return "l:" + CacheKey(.original, ["loader", url.absoluteString] + VaryKey.lines(fields)).digest
    }

    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        guard let key = key(request), let url = request.url else {
            if request.isUnsafe, let url = request.url, let key = key(URLRequest(url: url)) {
                let relay = RelayedLoad(
                    .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
                )
                pass(request, invalidating: key, relay)
                return relay
            }
            if !request.isUnsafe, !RequestCachePolicy(request).allowsNetwork {
                let relay = RelayedLoad(
                    .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
                )
                relay.complete(Self.missing(request.url), nil)
                return relay
            }
            return loader.timedLoad(
                with: request,
                didReceiveData: didReceiveData,
                didCollect: didCollect,
                completion: completion
            )
        }
        let relay = RelayedLoad(
            .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
        )
        let policy = RequestCachePolicy(request)
        relay.run { [self] in
            if policy.allowsUnvalidated, let (response, data) = await entry(key, url, policy.maximumFailureAge) {
                relay.receive(data, response)
                relay.complete(nil)
            } else if !policy.allowsNetwork {
                relay.complete(Self.missing(url), nil)
            } else {
                fetch(request, key, relay)
            }
        }
        return relay
    }

    private static func missing(_ url: URL?) -> ImageError {
        ImageError(.dataMissingInCache, "The cache has no response for \(url?.redacted ?? "a request without a URL").")
    }

    /// Loads an unsafe request and, if it succeeds, invalidates the entries of its URL (RFC 9111 section 4.4).
    private func pass(_ request: URLRequest, invalidating key: String, _ relay: RelayedLoad) {
        let recorder = Recorder()
        relay.begin {
            loader.timedLoad(
                with: request,
                didReceiveData: { relay.receive($0, $1) },
                didCollect: { timings in recorder.copy.withLock { $0.timings = timings } },
                completion: { [self] error in
                    let timings = recorder.copy.withLock { $0.timings }
                    if error != nil { return relay.complete(error, timings) }
                    relay.run { [self] in
                        await cache.removeData(for: key)
                        // Entries of requests with header fields have unknown keys: a timestamp invalidates them.
                        await cache.storeData(Data("\(now().timeIntervalSince1970)".utf8), for: Self.mark(beside: key))
                        relay.complete(nil, timings)
                    }
                }
            )
        }
    }

    /// Key of the time at which the URL's entries became invalid, stored as seconds since 1970.
    private static func mark(beside key: String) -> String { key + ":changed" }

    /// Whether an unsafe request has invalidated an entry of the URL since it was stored (RFC 9111 section 4.4).
    ///
    /// - Parameter time: when the entry was stored, seconds since 1970.
    private func isInvalid(_ url: URL, _ key: String, storedAt time: Double) async -> Bool {
        // The plain URL's entry itself was removed.
        guard let plain = self.key(URLRequest(url: url)), plain != key,
            let mark = await cache.cachedData(for: Self.mark(beside: plain))
        else { return false }
        return Double(String(decoding: mark, as: UTF8.self)).map { time < $0 } ?? false
    }

    /// The cached response, if it may still be used.
    ///
    /// - Parameter maximumAge: maximum time since the origin made it; a request limits the age of failures and of other
    ///   responses alike.
    private func entry(_ key: String, _ url: URL, _ maximumAge: Duration?) async -> (HTTPURLResponse, Data)? {
        guard let blob = await cache.cachedData(for: key), let (stored, data) = StoredResponse.decode(blob),
            let time = stored.stored, let lifetime = stored.lifetime
        else { return nil }
        let resident = now().timeIntervalSince1970 - time
        // Below zero, the clock was set back, and the age is unknown.
        guard resident >= 0, resident < lifetime else { return nil }
        let age = (stored.headers["age"].flatMap { CacheControl.deltaSeconds($0) } ?? 0) + resident
        if let maximumAge, age > maximumAge.inSeconds { return nil }
        if await isInvalid(url, key, storedAt: time) { return nil }
        var head = stored
        // RFC 9111 section 4: a response from a cache has its current age.
        head.headers["age"] = String(Int(min(age, CacheControl.longest)))
        return head.response(for: url).map { ($0, data) }
    }

    private struct Copy {
        var data = Data()
        var response: URLResponse?
        var timings: LoadTimings?
    }

    private final class Recorder: Sendable {
        let copy = Mutex(Copy())
    }

    private func fetch(_ request: URLRequest, _ key: String, _ relay: RelayedLoad) {
        let (recorder, limit) = (Recorder(), maximumSize)
        relay.begin {
            loader.timedLoad(
                with: request,
                didReceiveData: { data, response in
                    recorder.copy.withLock { copy in
                        copy.response = response
                        // One byte more marks the body as too large.
                        if copy.data.count <= limit { copy.data.append(data.prefix(limit + 1 - copy.data.count)) }
                    }
                    relay.receive(data, response)
                },
                didCollect: { timings in recorder.copy.withLock { $0.timings = timings } },
                completion: { [self] error in
                    let copy = recorder.copy.withLock { $0 }
                    guard error == nil, let blob = blob(copy) else { return relay.complete(error, copy.timings) }
                    // Stored before the completion, so that a request made after it finds the entry.
                    relay.run { [self] in
                        await cache.storeData(blob, for: key)
                        relay.complete(nil, copy.timings)
                    }
                }
            )
        }
    }

    /// The entry for a response; nil if it must not be stored.
    private func blob(_ copy: Copy) -> Data? {
        guard let response = copy.response as? HTTPURLResponse, response.statusCode == 200, !copy.data.isEmpty,
            copy.data.count <= maximumSize
        else { return nil }
        var head = StoredResponse(response)
        let heuristic = heuristicLifetime.inSeconds
        guard let metadata = CachedData.Metadata(headers: head.headers, heuristic: heuristic), metadata.lifetime > 0
        else { return nil }
        head.stored = now().timeIntervalSince1970
        head.lifetime = metadata.lifetime
        head.headers["age"] = String(Int(min(metadata.age ?? 0, CacheControl.longest)))
        // Strings and finite numbers always encode; if encoding fails all the same, nothing is stored.
        return try? head.encoded(with: copy.data)
    }
}

extension CachingDataLoader: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        (loader as? any SecurityRelaxationReporting)?.securityRelaxations ?? []
    }
}

extension CachingDataLoader: LoadLimitDeclaring {
    package var loadLimits: DataLoader.Configuration? { (loader as? any LoadLimitDeclaring)?.loadLimits }
}
