internal import Foundation
internal import MegatonPipeline
internal import Synchronization

/// Lists of renditions by their JSON: the jobs of most batches have the same one, letter by letter.
struct RenditionLists: ~Copyable {
    /// Those that a process met. More of them than `limit` are rare, and all are forgotten then.
    static let recent = RenditionLists()

    /// Lists that are remembered, and bytes of the JSON of one.
    private static let (limit, maximumSize) = (64, 4096)

    private let lists = Mutex<[Data: [Rendition]]>([:])

    /// Nil where it cannot be read, or has a value that cannot work.
    func list(_ json: Data) -> [Rendition]? {
        guard json.count <= Self.maximumSize else { return nil }
        if let list = lists.withLock({ $0[json] }) { return list }
        // What is wrong is found again by whoever reads the whole job, and said with its place in it. Lists that no job may
        // have are not remembered: four kilobytes of them are a thousand renditions.
        guard let list = try? JSONDecoder().decode([Rendition].self, from: json),
            (1...Job.maximumRenditions).contains(list.count)
        else { return nil }
        lists.withLock { lists in
            if lists.count >= Self.limit { lists.removeAll() }
            lists[json] = list
        }
        return list
    }
}
