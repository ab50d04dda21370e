internal import Foundation
internal import Logging
import Synchronization

/// Keeps what has come of one download, so that the next one for the same goes on from there: another worker's too, and
/// also where this process is killed meanwhile.
final class PartialKeeping: Sendable {
    /// What the cache has of a download. As many bytes of another representation are something else.
    private struct Kept: Equatable {
        /// Nil where it cannot be used.
        let validator: String?
        let count: Int

        init(_ partial: ResumableData?) {
            validator = partial?.validator
            count = partial?.data.count ?? 0
        }

        /// Whether a part should take its place while more is awaited.
        func isLess(than partial: ResumableData) -> Bool {
            validator != partial.validator || count < partial.data.count
        }
    }

    private struct State {
        /// Nil where the cache has nothing, as far as we know.
        var kept: Kept?
        /// Of the last checkpoint, or of the beginning.
        var last: ContinuousClock.Instant
        var checkpoint: Task<Void, Never>?
        var isWriting = false
    }

    private let cache: any DataCaching
    private let key: String
    private let interval: Duration
    private let copies: CopyGate
    private let logger: Logger
    private let state: Mutex<State>

    /// - Parameters:
    ///   - original: the key of what is downloaded.
    ///   - interval: between two checkpoints of a download that takes long.
    ///   - copies: admits what is written.
    init(_ cache: any DataCaching, _ original: CacheKey, interval: Duration, copies: CopyGate, logger: Logger) {
        self.copies = copies
        self.cache = cache
        key = CacheKey.partial(of: original).description
        self.interval = interval
        self.logger = logger
        state = Mutex(State(last: .now))
    }

    /// What an earlier download has left. It stays in the cache until this one has brought more, or all.
    func find() async -> ResumableData? {
        guard let blob = await cache.cachedData(for: key) else { return nil }
        let partial = ResumableData(encoded: blob)
        // What cannot be used is to be removed, too.
        state.withLock { $0.kept = Kept(partial) }
        return partial
    }

    /// Whether so much time has passed that it would be a pity to lose what has come, if the process is killed.
    var isDue: Bool { state.withLock { !$0.isWriting && $0.last.duration(to: .now) >= interval } }

    /// Keeps what has come so far, behind the download.
    func checkpoint(_ download: ResumableDownload) {
        state.withLock { state in
            guard !state.isWriting else { return }
            state.last = .now
            guard let partial = download.kept, state.kept?.isLess(than: partial) ?? true else { return }
            state.isWriting = true
            // Unstructured, as the download does not wait for it. `end` does; it ends within the cache's own time-outs.
            state.checkpoint = Task { await write(partial) }
        }
    }

    /// Ends the download. Returns when the cache has what there is to keep: whoever asks next finds it.
    ///
    /// - Parameter partial: nil where the next one is to begin anew, or has all.
    func end(_ partial: ResumableData?) async {
        // Not to be cancelled with the download: a cancelled one is what others go on with. Ends as the checkpoint does.
        await Task { [self] in
            await state.withLock { $0.checkpoint }?.value
            let kept = state.withLock { $0.kept }
            if let partial {
                if Kept(partial) != kept { await write(partial) }
            } else if kept != nil {
                await cache.removeData(for: key)
                state.withLock { $0.kept = nil }
            }
        }.value
    }

    private func write(_ partial: ResumableData) async {
        await copies.perform(partial.data) {
            do {
                await cache.storeData(try partial.encoded(), for: key)
                state.withLock { $0.kept = Kept(partial) }
            } catch {
                logger.debug("the beginning of a download was not kept", metadata: ["error": "\(error)"])
            }
        }
        state.withLock { $0.isWriting = false }
    }
}
