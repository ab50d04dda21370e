import MegatonCluster
import MegatonCommandLine

/// Ids that the jobs of lists name, to find different jobs with the same id: the coordinator fails the later one as
/// `id_conflict`, and does not know its line.
///
/// Takes about 50 bytes for each id. Ids beyond the limit are not compared.
struct OwnIDs: Sendable {
    private struct First: Sendable {
        let content: Int
        let list: UInt32
        let line: UInt32
    }

    private var known: [Int: First] = [:]
    /// Names of the lists.
    private var lists: [String] = []
    private let limit: Int

    init(limit: Int = 1_000_000) { self.limit = limit }

    /// Notes the id of a job.
    ///
    /// - Returns: the line of the first job with the id, if that is another job; nil for a new id, and for the same job
    ///   again, which is a duplicate.
    mutating func note(_ job: Job, at location: LineLocation) -> String? {
        guard let id = job.id else { return nil }
        let (key, content) = (Self.hash([id]), Self.hash(job.contentFields))
        if let first = known[key] {
            if first.content == content { return nil }
            let list = lists[Int(first.list)]
            return list == location.list ? "line \(first.line)" : "\(list), line \(first.line)"
        }
        guard known.count < limit else { return nil }
        if lists.last != location.list { lists.append(location.list) }
        known[key] = First(
            content: content,
            list: UInt32(clamping: lists.count - 1),
            line: UInt32(clamping: location.number)
        )
        return nil
    }

    /// 64 bits, with a seed that differs in each process. By bytes: two texts that Unicode takes for one may name two
    /// files.
    private static func hash(_ fields: [String]) -> Int {
        var hasher = Hasher()
        for var field in fields {
            hasher.combine(field.utf8.count)
            field.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
        return hasher.finalize()
    }
}
