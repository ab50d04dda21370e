internal import Foundation
internal import Logging
import Synchronization

/// Stores the beginning of one download, so that the next download of the same source resumes there, also in another
/// worker or after this process was killed.
final class PartialDownloadStore: Sendable {
    /// Partial download in the cache. The same number of bytes of another representation is a different one.
    private struct Stored: Equatable {
        /// Nil if it cannot be used.
        let validator: String?
        let count: Int

        init(_ partial: ResumableData?) {
            validator = partial?.validator
            count = partial?.data.count ?? 0
        }

        /// Whether a partial download should replace this one while the download continues.
        func isLess(than partial: ResumableData) -> Bool {
            validator != partial.validator || count < partial.data.count
        }
    }

    private struct State {
        /// Nil if the cache has no partial download, as far as is known.
        var stored: Stored?
        /// Time of the last checkpoint, or of the start.
        var last: ContinuousClock.Instant
        var checkpoint: Task<Void, Never>?
        var isWriting = false
        /// Whether the part belongs to processes that may connect to other addresses: it stays as it is.
        var isForeign = false
    }

    private let cache: any DataCaching
    private let key: String
    private let interval: Duration
    private let copies: CopyGate
    private let address: @Sendable () -> String?
    private let isPermitted: @Sendable (String) -> Bool
    private let logger: Logger
    private let state: Mutex<State>

    /// - Parameters:
    ///   - original: key of the original that is downloaded.
    ///   - interval: time between two checkpoints of a long download.
    ///   - copies: admits the bytes on their way to the cache.
    ///   - address: returns the address that the bytes come from, if it is not public.
    ///   - isPermitted: whether this process may use bytes from such an address.
    init(
        _ cache: any DataCaching,
        _ original: CacheKey,
        interval: Duration,
        copies: CopyGate,
        address: @escaping @Sendable () -> String?,
        isPermitted: @escaping @Sendable (String) -> Bool,
        logger: Logger
    ) {
        self.copies = copies
        self.address = address
        self.isPermitted = isPermitted
        self.cache = cache
        key = CacheKey.partial(of: original).description
        self.interval = interval
        self.logger = logger
        state = Mutex(State(last: .now))
    }

    /// Partial download that an earlier request has left. It stays in the cache until this one has received more, or
    /// all.
    func load() async -> ResumableData? {
        guard let blob = await cache.cachedData(for: key) else { return nil }
        let partial = ResumableData(encoded: blob)
        // Its first bytes would be rendered whatever address sends the rest.
        if let address = partial?.address, !isPermitted(address) {
            state.withLock { $0.isForeign = true }
            return nil
        }
        // An unusable one is recorded as well, so that it gets removed.
        state.withLock { $0.stored = Stored(partial) }
        return partial
    }

    /// Whether a checkpoint is due, which limits the loss if the process is killed.
    var isDue: Bool {
        state.withLock { !$0.isForeign && !$0.isWriting && $0.last.duration(to: .now) >= interval }
    }

    /// Stores the bytes received so far, without delaying the download.
    func checkpoint(_ download: ResumableDownload) {
        state.withLock { state in
            guard !state.isWriting, !state.isForeign else { return }
            state.last = .now
            guard let partial = download.kept, state.stored?.isLess(than: partial) ?? true else { return }
            state.isWriting = true
            // Unstructured, as the download does not wait for it. `finish` does. Bounded by the cache's own timeouts.
            state.checkpoint = Task { await write(partial) }
        }
    }

    /// Ends the download. Returns when the cache is up to date, so that the next request finds the partial download.
    ///
    /// - Parameter partial: nil if the download is complete, or if the next one must start over.
    func finish(storing partial: ResumableData?) async {
        if state.withLock({ $0.isForeign }) { return }
        // Not cancelled with the download, so that others can resume it. Bounded like the checkpoint.
        await Task { [self] in
            await state.withLock { $0.checkpoint }?.value
            let stored = state.withLock { $0.stored }
            if let partial {
                if Stored(partial) != stored { await write(partial) }
            } else if stored != nil {
                await cache.removeData(for: key)
                state.withLock { $0.stored = nil }
            }
        }.value
    }

    private func write(_ partial: ResumableData) async {
        var partial = partial
        partial.address = address() ?? partial.address
        await copies.perform(partial.data) { [partial] in
            do {
                await cache.storeData(try partial.encoded(), for: key)
                state.withLock { $0.stored = Stored(partial) }
            } catch {
                logger.debug("the beginning of a download was not stored", metadata: ["error": "\(error)"])
            }
        }
        state.withLock { $0.isWriting = false }
    }
}
