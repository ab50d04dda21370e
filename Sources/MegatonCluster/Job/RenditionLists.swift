internal import Foundation
internal import MegatonPipeline
internal import Synchronization

/// Cache of rendition lists and their JSON: the jobs of most batches have the same list, byte for byte.
struct RenditionLists: ~Copyable {
    /// Lists that this process has met. More than `limit` of them are rare; all are then forgotten.
    static let recent = RenditionLists()

    /// Maximum number of lists, and maximum bytes of the JSON of one.
    private static let (limit, maximumSize) = (64, 4096)

    private let lists = Mutex<[Data: [Rendition]]>([:])
    /// Copies of one array share their storage, so that a comparison takes no time.
    private let encoded = RecentValues<[Rendition], Data>(limit: 4)

    /// Nil if the JSON cannot be read, or has a value that cannot work.
    func list(_ json: Data) -> [Rendition]? {
        guard json.count <= Self.maximumSize else { return nil }
        if let list = lists.withLock({ $0[json] }) { return list }
        // The reader of the whole job finds the problem again, and reports it with its place in the job. Lists that no
        // job may have are not cached: four kilobytes of them are a thousand renditions.
        guard let list = try? JSONDecoder().decode([Rendition].self, from: json),
            (1...Job.maximumRenditions).contains(list.count)
        else { return nil }
        lists.withLock { lists in
            if lists.count >= Self.limit { lists.removeAll() }
            lists[json] = list
        }
        return list
    }

    /// The wire form of a list.
    func json(of list: [Rendition]) -> Data {
        list.allSatisfy(\.isIdenticalIfEqual) ? encoded.value(of: list) { WireJSON.data(list) } : WireJSON.data(list)
    }
}

extension Rendition {
    /// Whether an equal rendition has the same bytes, so that values computed from it may be cached by it. Texts of a
    /// watermark are equal in several Unicode forms, which may name several files, and the coordinates of a focus may
    /// be 0 or -0. Names have ASCII only; others are refused later.
    var isIdenticalIfEqual: Bool { watermark == nil && focus == nil }
}

/// Small cache of computed values by their keys, for keys of which few occur at a time, such as the renditions of a
/// batch. A lookup compares all keys, and the oldest value makes room for a new one.
struct RecentValues<Key: Equatable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    private let values = Mutex<[(key: Key, value: Value)]>([])
    private let limit: Int

    /// - Parameter limit: maximum number of values.
    init(limit: Int) { self.limit = limit }

    /// The value of a key.
    ///
    /// - Parameter compute: called if the value is not known. Two threads that miss at the same time both call it.
    func value(of key: Key, _ compute: () -> Value) -> Value {
        if let known = values.withLock({ $0.last { $0.key == key }?.value }) { return known }
        let value = compute()
        values.withLock { values in
            if values.contains(where: { $0.key == key }) { return }
            if values.count >= limit { values.removeFirst() }
            values.append((key, value))
        }
        return value
    }
}
