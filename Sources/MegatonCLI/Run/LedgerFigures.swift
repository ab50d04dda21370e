import MegatonCluster
import MegatonPipeline

/// Sizes and times of the last ledger, from which the cost of the next run is estimated.
struct LedgerFigures: Sendable {
    /// Sums of the outputs of one rendition.
    private struct Outputs {
        var count = 0
        var bytes = 0.0
        /// Of these, the ones that were rendered and not found in a cache.
        var rendered = 0
        var seconds = 0.0

        mutating func add(_ output: EarlierLedger.Line.Output, seconds: Double?) {
            count += 1
            bytes += Double(output.bytes)
            guard output.from == RenditionResponse.Source.render.rawValue, let seconds else { return }
            rendered += 1
            self.seconds += seconds
        }
    }

    /// Sums of the sources of one kind.
    private struct Sources {
        var count = 0
        var bytes = 0.0
        /// Jobs that fetched or read their source.
        var fetched = 0
        var seconds = 0.0
    }

    /// Number of lines of jobs that are done.
    private(set) var lines = 0
    private var renditions: [String: Outputs] = [:]
    private var all = Outputs()
    private var remote = Sources()
    private var local = Sources()

    /// Maximum number of renditions that are estimated apart; others have the figures of all.
    private static let maximumRenditions = 10_000

    mutating func add(_ line: EarlierLedger.Line) {
        guard line.status == .done else { return }
        lines += 1
        let rendered = line.outputs.count { $0.from == RenditionResponse.Source.render.rawValue }
        // One decode serves all renditions: each has its share.
        let share = line.times.map { $0.rendering / Double(max(rendered, 1)) }
        for output in line.outputs {
            all.add(output, seconds: share)
            let key = Self.key(output.name, output.format)
            if renditions[key] == nil && renditions.count >= Self.maximumRenditions { continue }
            renditions[key, default: Outputs()].add(output, seconds: share)
        }
        add(line, to: Self.isRemote(line.source) ? \.remote : \.local)
    }

    private mutating func add(_ line: EarlierLedger.Line, to kind: WritableKeyPath<LedgerFigures, Sources>) {
        if let bytes = line.facts?.bytes {
            self[keyPath: kind].count += 1
            self[keyPath: kind].bytes += Double(bytes)
        }
        if let seconds = line.times?.fetching, seconds > 0 {
            self[keyPath: kind].fetched += 1
            self[keyPath: kind].seconds += seconds
        }
    }

    private static func key(_ name: String, _ format: String) -> String { "\(name).\(format)" }

    static func isRemote(_ source: String) -> Bool {
        ["http", "https", "s3"].contains(source.prefix { $0 != ":" }.lowercased())
    }

    /// Mean size of the outputs of a rendition, or of all if the ledger does not have it; nil without outputs.
    func bytes(of rendition: Rendition) -> Double? {
        let figures = figures(of: rendition)
        return figures.count == 0 ? nil : figures.bytes / Double(figures.count)
    }

    /// Mean time of rendering an output, on one processor; nil if none was rendered.
    func seconds(of rendition: Rendition) -> Double? {
        let own = figures(of: rendition)
        let figures = own.rendered > 0 ? own : all
        return figures.rendered == 0 ? nil : figures.seconds / Double(figures.rendered)
    }

    private func figures(of rendition: Rendition) -> Outputs {
        renditions[Self.key(rendition.name, rendition.format.rawValue)] ?? all
    }

    /// Mean size of the sources of one kind; nil if the ledger has none.
    func sourceBytes(isRemote: Bool) -> Double? {
        let sources = isRemote ? remote : local
        return sources.count == 0 ? nil : sources.bytes / Double(sources.count)
    }

    /// Mean time of fetching or reading a source of one kind; nil if none was.
    func fetchSeconds(isRemote: Bool) -> Double? {
        let sources = isRemote ? remote : local
        return sources.fetched == 0 ? nil : sources.seconds / Double(sources.fetched)
    }
}
