package import Foundation
internal import MegatonPipeline

/// A job with up to 256 sources, which share everything else: renditions, credential, output template, priority.
///
/// The queue treats it as one job, with one lease, but each source has its own id and outcome. The wire form is
/// that of a job with `sources` in the place of `source`.
package struct Pack: Sendable, Equatable {
    /// One of the sources.
    package struct Source: Sendable, Hashable {
        package var id: String
        package var source: String
        /// Output template; nil for that of the pack.
        package var output: String?
        package var labels: Job.Labels?
        var idempotencyKey: String?

        package init(id: String, source: String, output: String? = nil) {
            self.id = id
            self.source = source
            self.output = output
        }
    }

    /// The fields that all sources share. Its id is that of the pack, and its source stands for all of them.
    var shared: Job
    var sources: [Source]

    package static let maximumSources = 256
    /// The shared fields, once for each source, and the sources may have this many bytes: the pack may be split.
    static let maximumSplitSize = 4 * 1024 * 1024
    /// Characters that the ids of sources add to that of their pack.
    private static let idSuffix = 4
    /// Source of the shared fields.
    private static let placeholder = "pack:"

    /// - Parameter shared: a job with an id; its source is ignored.
    package init(sharing shared: Job, sources: [Source]) {
        self.shared = shared
        self.shared.source = Self.placeholder
        self.sources = sources
    }

    /// The id of a source that has none of its own.
    ///
    /// - Parameter number: counted from 1.
    static func sourceID(_ number: Int, of pack: String) -> String { "\(pack).\(number)" }

    /// A source as a job of its own.
    package func job(_ source: Source) -> Job {
        var job = shared
        job.id = source.id
        job.source = source.source
        job.output = source.output ?? shared.output
        job.labels = source.labels
        job.idempotencyKey = source.idempotencyKey
        return job
    }

    /// The host of all sources; nil if they have none, or not the same one.
    var host: String? {
        let hosts = hosts
        return hosts.count == 1 ? hosts.first ?? nil : nil
    }

    /// Whether all sources have the same host, or none.
    var hasOneHost: Bool { hosts.count == 1 }

    private var hosts: Set<String?> {
        var (job, last) = (shared, [UInt8]())
        return sources.reduce(into: []) { hosts, source in
            // Most sources begin like the one before, and to read each URL takes longer than the rest of the
            // validation.
            let isAlike = source.source.utf8.withContiguousStorageIfAvailable { bytes in
                !last.isEmpty && bytes.count >= last.count && memcmp(bytes.baseAddress!, last, last.count) == 0
            }
            if isAlike == true { return }
            job.source = source.source
            hosts.insert(job.host)
            last = Self.beginning(of: source.source)
        }
    }

    /// The scheme and the authority of a URL with a path, `https://example.org/`; empty for any other source.
    private static func beginning(of source: String) -> [UInt8] {
        let bytes = source.utf8
        guard let scheme = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[scheme...].starts(with: "://".utf8) else {
            return []
        }
        let authority = bytes[scheme...].dropFirst(3)
        guard let end = authority.firstIndex(where: { "/?#\\".utf8.contains($0) }), bytes[end] == UInt8(ascii: "/")
        else {
            return []
        }
        return Array(bytes[...end])
    }

    /// Whether the queue may keep it whole if nothing has to be known about its ids: one host, no idempotency keys, and
    /// no id twice.
    var canStayWhole: Bool {
        sources.count > 1 && sources.allSatisfy { $0.idempotencyKey == nil }
            && Set(sources.map(\.id)).count == sources.count && hasOneHost
    }

    /// Whether the ids of all sources come from the pack's own.
    var hasMadeSourceIDs: Bool {
        let prefix = (shared.id ?? "") + "."
        return sources.allSatisfy { $0.id.hasPrefix(prefix) }
    }

    /// Whether a coordinator accepts it: as JSON, and as jobs of one source each.
    package var isWithinLimits: Bool {
        splitSize <= Self.maximumSplitSize && json().count <= Job.maximumSize
    }

    /// Bytes of its sources, about.
    var size: Int {
        sources.reduce(0) {
            $0 + $1.id.utf8.count + $1.source.utf8.count + ($1.output?.utf8.count ?? 0) + Job.size($1.labels)
        }
    }

    /// Bytes of its sources as jobs, about.
    var splitSize: Int {
        sources.reduce(shared.json().count * sources.count) {
            $0 + $1.source.utf8.count + ($1.output?.utf8.count ?? 0) + Job.size($1.labels)
        }
    }

    /// Digest in the meta of the pack, which tells the scripts that it is one.
    var digest: String { "*\(sources.count)" }

    /// The same pack with other sources.
    func with(_ sources: [Source]) -> Pack { Pack(sharing: shared, sources: sources) }

    // MARK: - Wire form

    /// The wire form. A source is a text if it has nothing of its own.
    package func json() -> Data {
        // Shared labels are those of the sources, so that no other field has this name and value.
        let fields = shared.json()
        let place = Data("\"source\":\"\(Self.placeholder)\"".utf8)
        guard let range = fields.range(of: place) else { preconditionFailure("a job encodes its source") }
        var json: [UInt8] = []
        json.reserveCapacity(fields.count + size + 4 * sources.count)
        json += fields[..<range.lowerBound]
        json += "\"sources\":[".utf8
        for (index, source) in sources.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            let isPlain = source.output == nil && source.labels == nil && source.idempotencyKey == nil
            if isPlain, source.id == shared.id.map({ Self.sourceID(index + 1, of: $0) }) {
                Self.quote(source.source, in: &json)
            } else {
                json += "{\"id\":".utf8
                Self.quote(source.id, in: &json)
                if let key = source.idempotencyKey {
                    json += ",\"key\":".utf8
                    Self.quote(key, in: &json)
                }
                if let labels = source.labels { json += ",\"labels\":".utf8 + Job.json(of: labels) }
                if let output = source.output {
                    json += ",\"output\":".utf8
                    Self.quote(output, in: &json)
                }
                json += ",\"source\":".utf8
                Self.quote(source.source, in: &json)
                json.append(UInt8(ascii: "}"))
            }
        }
        json.append(UInt8(ascii: "]"))
        json += fields[range.upperBound...]
        return Data(json)
    }

    private static func quote(_ text: String, in json: inout [UInt8]) {
        let (quote, escape) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))
        guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != quote && $0 != escape }) else {
            json += WireJSON.data(text)
            return
        }
        json.append(quote)
        json += text.utf8
        json.append(quote)
    }

    /// A source of a pushed pack that cannot be used.
    struct Invalid: Sendable, Equatable {
        let id: String
        let json: Data
        let message: String
    }

    /// A pushed pack, read and checked.
    struct Pushed: Sendable {
        var pack: Pack
        var invalid: [Invalid] = []
        /// Whether all ids were made for this pack.
        var hasMadeIDs: Bool
    }

    /// Reads the wire form.
    ///
    /// - Parameters:
    ///   - wasValidated: whether a coordinator has validated it. Its limits no longer count then: ids, settings of its
    ///     preset and shared labels, now at each source, may have made it larger than what was pushed.
    ///   - makeID: makes the id of a pack that has none.
    /// - Returns: nil if the JSON has no field `sources`.
    /// - Throws: `JobError` if the pack cannot be accepted as a whole.
    static func read(
        _ json: Data,
        wasValidated: Bool = false,
        makeID: () -> String
    ) throws(JobError) -> Pushed? {
        guard wasValidated || json.count <= Job.maximumSize, mentionsSources(json) else { return nil }
        var fields: [Field] = []
        var list: Data?
        var (isRepeated, hasSource) = (false, false)
        let isWhole = PlainJSONReader.read(json) { reader in
            reader.members { name, value in
                if name == Data(#""source""#.utf8) { hasSource = true }
                if name == sourcesName {
                    isRepeated = list != nil
                    list = value
                } else if fields.count <= maximumFields {
                    fields.append(Field(name: name, value: value))
                }
            } ? true : nil
        }
        guard isWhole != nil, let list else { return nil }
        if hasSource { throw JobError("source goes with no sources: a job has either of them") }
        if isRepeated { throw JobError("sources occurs twice") }
        if fields.count > maximumFields {
            throw JobError("the pack has more than \(maximumFields) fields beside sources; each field may occur once")
        }
        // Most lists have URLs alone, which are read at once.
        let urls = PlainJSONReader.read(list) { $0.strings() }
        guard let elements = urls == nil ? elements(of: list) : [] else {
            throw JobError("sources is no list; allowed are lists of URLs and of objects with id and source")
        }
        let count = urls?.count ?? elements.count
        guard (1...maximumSources).contains(count) else {
            throw JobError("sources has \(count) sources; allowed are 1 to \(maximumSources)")
        }
        let placed = object(fields.map(\.json) + [Data("\"source\":\"\(placeholder)\"".utf8)])
        var shared = try Job(json: placed, wasValidated: wasValidated)
        if shared.idempotencyKey != nil {
            throw JobError("key goes with one source; allowed are keys of the sources, {\"key\": …, \"source\": …}")
        }
        let labels = shared.labels
        shared.labels = nil
        let hasMadeID = shared.id == nil
        let id = shared.id ?? makeID()
        guard id.utf8.count + idSuffix <= 128 else {
            throw JobError("id has \(id.utf8.count) characters; allowed are at most \(128 - idSuffix) for a pack")
        }
        shared.id = id
        var pushed = Pushed(pack: Pack(sharing: shared, sources: []), hasMadeIDs: hasMadeID)
        pushed.pack.sources.reserveCapacity(count)
        for index in 0..<count {
            let ownID = sourceID(index + 1, of: id)
            do throws(JobError) {
                var source = try source(ownID, at: index, urls, elements)
                if !wasValidated { try check(source, at: index) }
                source.labels = source.labels ?? labels
                if source.id != ownID { pushed.hasMadeIDs = false }
                pushed.pack.sources.append(source)
            } catch {
                let element = urls.map { WireJSON.data($0[index]) } ?? elements[index]
                let json = refusedJSON(element, sharing: fields, limit: maximumSplitSize / count)
                pushed.invalid.append(Invalid(id: ownID, json: json, message: error.message))
            }
        }
        if !wasValidated { try pushed.pack.requireSplitSize() }
        return pushed
    }

    /// Checks that its sources as jobs of their own have no more than `maximumSplitSize` bytes.
    func requireSplitSize() throws(JobError) {
        let size = splitSize
        if size <= Self.maximumSplitSize { return }
        throw JobError(
            "the pack has \(size) bytes if each of its \(sources.count) sources is a job, with its labels and "
                + "renditions; allowed are \(Self.maximumSplitSize): use fewer renditions or labels, or smaller packs"
        )
    }

    /// The sources of a pack that cannot be accepted as a whole: each of them is refused, so that its batch counts it.
    ///
    /// - Parameters:
    ///   - id: id of the pack.
    ///   - wasValidated: whether a coordinator has admitted it: it may be larger then, as in `read`.
    /// - Returns: nil if the JSON has no list of 1 to 256 sources.
    static func refused(_ json: Data, id: String, message: String, wasValidated: Bool = false) -> [Invalid]? {
        guard wasValidated || json.count <= Job.maximumSize, mentionsSources(json) else { return nil }
        var (fields, list): ([Field], Data?) = ([], nil)
        _ = PlainJSONReader.read(json) { reader in
            reader.members { name, value in
                if name == sourcesName {
                    list = list ?? value
                } else if fields.count < maximumFields {
                    fields.append(Field(name: name, value: value))
                }
            } ? true : nil
        }
        guard let elements = list.flatMap(elements(of:)), (1...maximumSources).contains(elements.count) else {
            return nil
        }
        return elements.enumerated().map { index, element in
            Invalid(
                id: sourceID(index + 1, of: id),
                json: refusedJSON(element, sharing: fields, limit: maximumSplitSize / elements.count),
                message: message
            )
        }
    }

    private static let sourcesName = Data(#""sources""#.utf8)
    /// Maximum number of fields beside the sources, twice as many as there are: a client could repeat one 100,000
    /// times, and they are compared with those of each source.
    private static let maximumFields = 64

    /// A field of a pack: its name in quotes, and its value.
    private struct Field {
        let name: Data
        let value: Data

        var json: Data { name + Data(":".utf8) + value }
    }

    /// Whether it may be a pack; faster than reading it.
    private static func mentionsSources(_ json: Data) -> Bool {
        json.withUnsafeBytes { json in
            sourcesName.withUnsafeBytes { name in
                guard json.count >= name.count, let nameStart = name.baseAddress else { return false }
                return (0...json.count - name.count).contains { at in
                    json[at] == name[0] && memcmp(json.baseAddress! + at, nameStart, name.count) == 0
                }
            }
        }
    }

    private static func elements(of list: Data) -> [Data]? {
        var elements: [Data] = []
        return PlainJSONReader.read(list) { $0.elements { elements.append($0) } ? true : nil }.map { _ in elements }
    }

    private static func object(_ fields: [Data]) -> Data {
        Data("{".utf8) + Data(fields.joined(separator: Data(",".utf8))) + Data("}".utf8)
    }

    /// A refused source as a job of its own, for its dead letter: with the fields of its pack that it does not have
    /// itself, except for the id.
    ///
    /// - Parameter limit: bytes above which it has only its own fields: large ones of the pack would be in memory once
    ///   for each source.
    private static func refusedJSON(_ element: Data, sharing fields: [Field], limit: Int) -> Data {
        var own: [Data] = []
        var names: Set = [Data(#""id""#.utf8)]
        if element.first == UInt8(ascii: "\"") {
            own = [Data("\"source\":".utf8) + element]
        } else {
            let isObject = PlainJSONReader.read(element) { reader in
                reader.members { name, value in
                    own.append(Field(name: name, value: value).json)
                    names.insert(name)
                } ? true : nil
            }
            if isObject == nil { return element }
        }
        let shared = fields.filter { !names.contains($0.name) }.map(\.json)
        return object(shared.reduce(element.count) { $0 + $1.count } <= limit ? own + shared : own)
    }

    private struct Element: Decodable {
        var id: JobID?
        var source: String
        var output: String?
        var labels: Job.Labels?
        var key: String?
    }

    private static func source(
        _ id: String,
        at index: Int,
        _ urls: [String]?,
        _ elements: [Data]
    ) throws(JobError) -> Source {
        if let urls { return Source(id: id, source: urls[index]) }
        if let plain = plainSource(elements[index], id: id) { return plain }
        return try decodedSource(elements[index], path(index), id: id)
    }

    private static func check(_ source: Source, at index: Int) throws(JobError) {
        var job = Job(id: source.id, source: source.source, output: source.output, labels: source.labels)
        job.idempotencyKey = source.idempotencyKey
        if let problem = job.problem { throw JobError("\(path(index)).\(problem)") }
    }

    /// The place of a source in messages.
    private static func path(_ index: Int) -> String { "sources[\(index)]" }

    /// The fast path; nil leaves the source to the decoder.
    private static func plainSource(_ json: Data, id: String) -> Source? {
        if let text = PlainJSONReader.read(json, { $0.string() }) { return Source(id: id, source: text) }
        var found = Source(id: id, source: "")
        let isRead = PlainJSONReader.read(json) { reader in
            reader.object { reader, name in
                var text: String?
                switch name {
                case "id":
                    text = reader.string()
                    found.id = text ?? id
                case "source":
                    text = reader.string()
                    found.source = text ?? ""
                case "output":
                    text = reader.string()
                    found.output = text
                case "key":
                    text = reader.string()
                    found.idempotencyKey = text
                case "labels":
                    found.labels = Job.Labels.read(&reader)
                    return found.labels != nil
                default: return false
                }
                return text != nil
            } ? true : nil
        }
        return isRead != nil && !found.source.isEmpty ? found : nil
    }

    private static func decodedSource(_ json: Data, _ path: String, id: String) throws(JobError) -> Source {
        if let text = try? JSONDecoder().decode(String.self, from: json) { return Source(id: id, source: text) }
        var unknown: String?
        _ = PlainJSONReader.read(json) { reader in
            reader.members { name, _ in
                let name = (try? JSONDecoder().decode(String.self, from: name)) ?? ""
                if !["id", "source", "output", "labels", "key"].contains(name) { unknown = unknown ?? name }
            } ? true : nil
        }
        if let unknown {
            throw JobError("\(path) has the field \(FieldProblem.quoted(unknown)); allowed \(allowedFields)")
        }
        guard let element = try? JSONDecoder().decode(Element.self, from: json) else {
            throw JobError("\(path) is no source; allowed are URLs and objects whose fields \(allowedFields)")
        }
        var found = Source(id: element.id?.text ?? id, source: element.source, output: element.output)
        found.labels = element.labels
        found.idempotencyKey = element.key
        return found
    }

    private static let allowedFields = "are id, source, output, labels and key; the sources share all others"
}

extension Pack {
    /// Reads a pack that a coordinator has admitted.
    package init(json: Data) throws(JobError) {
        guard let pushed = try Self.read(json, wasValidated: true, makeID: { "" }), pushed.invalid.isEmpty else {
            throw JobError("the pack cannot be read")
        }
        self = pushed.pack
    }
}
