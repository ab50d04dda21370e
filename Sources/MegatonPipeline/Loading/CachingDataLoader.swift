public import Foundation
public import FoundationNetworking
import Synchronization

/// Puts a cache in front of a loader: whole answers with their header fields, for as long as these allow.
///
/// For loaders that are used without a pipeline, or behind a pipeline that has no cache: a pipeline with one knows more
/// (revalidation, stale entries, one fetch at a time). Only plain requests are looked up: GET without a range, a
/// condition, cookies or credentials. What is asked for with one of the `reload…` policies or with `no-cache` is
/// fetched and kept; `max-age` of a request limits the age of its answer, and one with `no-store` passes the cache by.
public final class CachingDataLoader: TimedDataLoading {
    private let loader: any DataLoading
    private let cache: any DataCaching
    private let maximumSize: Int
    private let key: @Sendable (URLRequest) -> String?
    private let heuristicLifetime: Duration
    private let now: @Sendable () -> Date

    /// - Parameters:
    ///   - maximumSize: bytes of a body that is kept; larger ones pass by.
    ///   - key: what an answer is called in the cache; nil passes the cache by.
    ///   - heuristicLifetime: as of `ImagePipeline.Configuration`.
    ///   - now: the time that entries age by.
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

    /// The URL and all header fields but those for caches, so that no answer is given to a request that its origin
    /// might have answered otherwise (`Vary`); nil for what is not looked up.
    public static func key(for request: URLRequest) -> String? {
        let fields = request.allHTTPHeaderFields ?? [:]
        let names = Set(fields.keys.map { $0.lowercased() })
        let own: Set<String> = [
            "range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
            "authorization",
            "cookie", "megaton-credential",
        ]
        guard (request.httpMethod ?? "GET").uppercased() == "GET", request.httpBody == nil, let url = request.url,
            names.isDisjoint(with: own), RequestCachePolicy(request).mayKeep
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
            if policy.takesUnasked, let (response, data) = await entry(key, url, policy.maximumFailureAge) {
                relay.receive(data, response)
                relay.complete(nil)
            } else {
                fetch(request, key, relay)
            }
        }
        return relay
    }

    /// Loads what may change the entry for its URL, and forgets that if it was no failure (RFC 9111 section 4.4).
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
                        // The entries of requests with header fields have keys that nobody knows.
                        await cache.storeData(Data("\(now().timeIntervalSince1970)".utf8), for: Self.mark(beside: key))
                        relay.complete(nil, timings)
                    }
                }
            )
        }
    }

    /// Where it is written when the URL's entries became invalid, as seconds since 1970.
    private static func mark(beside key: String) -> String { key + ":changed" }

    /// Whether an unsafe request has invalidated the URL's entries since (RFC 9111 section 4.4).
    ///
    /// - Parameter time: seconds since 1970.
    private func isInvalid(_ url: URL, _ key: String, storedAt time: Double) async -> Bool {
        // The URL's own entry is removed.
        guard let plain = self.key(URLRequest(url: url)), plain != key,
            let mark = await cache.cachedData(for: Self.mark(beside: plain))
        else { return false }
        return Double(String(decoding: mark, as: UTF8.self)).map { time < $0 } ?? false
    }

    /// What the cache has and may still be used.
    ///
    /// - Parameter maximumAge: since the origin made it; the request limits that of failures and of others alike.
    private func entry(_ key: String, _ url: URL, _ maximumAge: Duration?) async -> (HTTPURLResponse, Data)? {
        guard let blob = await cache.cachedData(for: key), let (stored, data) = StoredResponse.decode(blob),
            let time = stored.stored, let lifetime = stored.lifetime
        else { return nil }
        let resident = now().timeIntervalSince1970 - time
        // Below zero: a clock that was set back, by which nothing can be told.
        guard resident >= 0, resident < lifetime else { return nil }
        let age = (stored.headers["age"].flatMap { CacheControl.deltaSeconds($0) } ?? 0) + resident
        if let maximumAge, age > maximumAge.inSeconds { return nil }
        if await isInvalid(url, key, storedAt: time) { return nil }
        var head = stored
        // RFC 9111 section 4.
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
                        // One byte more tells that it is too large.
                        if copy.data.count <= limit { copy.data.append(data.prefix(limit + 1 - copy.data.count)) }
                    }
                    relay.receive(data, response)
                },
                didCollect: { timings in recorder.copy.withLock { $0.timings = timings } },
                completion: { [self] error in
                    let copy = recorder.copy.withLock { $0 }
                    guard error == nil, let blob = blob(copy) else { return relay.complete(error, copy.timings) }
                    // Before the completion, so that whoever asks after it finds the entry.
                    relay.run { [self] in
                        await cache.storeData(blob, for: key)
                        relay.complete(nil, copy.timings)
                    }
                }
            )
        }
    }

    /// The entry that is made of an answer, or nil where none may be.
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
        // Strings and finite numbers always encode; what does not is not kept.
        return try? head.encoded(with: copy.data)
    }
}

extension CachingDataLoader: WeakeningDeclaring {
    var weakenings: [String] { (loader as? any WeakeningDeclaring)?.weakenings ?? [] }
}

extension CachingDataLoader: LoadLimitDeclaring {
    var loadLimits: DataLoader.Configuration? { (loader as? any LoadLimitDeclaring)?.loadLimits }
}
