internal import Foundation

/// Limits on an SVG before librsvg, which cannot be stopped and has no limit of memory. Checked in one walk over
/// the markup, before librsvg sees it: it is only a reader of tags and attributes, and what it does not understand it
/// refuses.
///
/// A filter primitive, a pattern's tile and a group with an opacity take a surface of their own; lines of `use` that name
/// each other double with each line what is drawn; a dashed path of a billion units has as many dashes.
enum SVGBounds {
    /// Bytes of the markup.
    static let bytes = 8 << 20
    /// Elements, and the same with everything that is drawn through references counted each time.
    static let (elements, drawn) = (100_000, 200_000)
    /// Bytes of tags, counted each time that they are drawn: a path of 100 kB that 100 references draw takes a minute.
    /// Texts are counted by `cost(ofText:after:)`.
    static let drawnBytes = 32 << 20
    static let depth = 200
    /// Groups in each other that are drawn apart and put together: each takes the memory of the whole image.
    static let layers = 8
    /// Elements times the corners of lines, where markers are drawn at corners.
    static let markers = 2_000_000
    /// Dashes of all lines together, by an upper bound of their lengths.
    static let dashes = 1e6
    private static let longestName = 256

    /// - Returns: what is not drawn, to stand behind "the SVG"; nil where there is nothing of the kind.
    static func complaint(_ bytes: UnsafeRawBufferPointer) -> String? {
        if bytes.count > Self.bytes { return "has \(bytes.count) bytes; the limit is \(Self.bytes)" }
        var walk = SVGWalk(bytes)
        do throws(SVGWalk.Refusal) {
            try walk.run()
            return nil
        } catch {
            return error.text
        }
    }

    /// The cost of more text in a text element, in bytes of tags. The time for a text grows with the square of its
    /// length: 3 kB take 0.3 s, 30 kB 7 s (librsvg 2.54.7). One of 16 kB is as much as an SVG may draw.
    ///
    /// - Parameter before: bytes that the same text element has already.
    static func cost(ofText bytes: Int, after before: Int) -> Int { (2 * before + bytes) * bytes / 8 }

    /// Elements whose cost is not that of what they show.
    static func complaint(ofElement name: String) -> String? {
        switch name {
        case "filter": "has filters, which are not drawn: their cost has no bound"
        case "pattern": "has patterns, which are not drawn: their tiles may be of any size"
        case "include": "includes other files, which is not done"
        default: name.utf8.count > longestName ? "has a name of \(name.utf8.count) bytes" : nil
        }
    }

    /// Of an image within it. What lies elsewhere librsvg leaves out, as bytes have no place that they come from.
    static func complaint(ofImage reference: String) -> String? {
        let isEmbedded = reference.trimmingCharacters(in: .whitespacesAndNewlines).lowercased().hasPrefix("data:")
        return isEmbedded ? "has embedded images, which are not drawn: they would be decoded without limits" : nil
    }
}

/// Elements that are drawn through references: `use`, patterns, masks, markers, clips.
struct SVGReferences {
    /// An element that others may name, or that lies directly in such a one.
    struct Node {
        /// Elements within it, itself among them, that have no nodes of their own.
        var elements = 1
        /// Bytes of their tags, and the cost of their texts.
        var bytes = 0
        /// The most layers in each other within it.
        var layers = 0
        var children: [Int] = []
        var references: [String] = []
    }

    private(set) var nodes = [Node(elements: 0)]
    private(set) var named: [String: Int] = [:]

    /// - Returns: the node of a new element: its own where it has a name, else its parent's.
    mutating func add(_ name: String?, _ references: [String], layers: Int, bytes: Int, in parent: Int) -> Int {
        guard let name else {
            nodes[parent].elements += 1
            nodes[parent].bytes += bytes
            nodes[parent].references += references
            nodes[parent].layers = max(nodes[parent].layers, layers)
            return parent
        }
        nodes.append(Node(bytes: bytes, layers: layers, references: references))
        nodes[parent].children.append(nodes.count - 1)
        // Of two with one name, readers take one or the other.
        if let first = named[name] {
            nodes[first].children.append(nodes.count - 1)
        } else {
            named[name] = nodes.count - 1
        }
        return nodes.count - 1
    }

    mutating func add(bytes: Int, to node: Int) { nodes[node].bytes += bytes }

    /// How many elements and bytes are drawn, counted no further than to one beyond their limits, and the most layers in
    /// each other; nil if something is drawn within itself.
    func drawn() -> (elements: Int, bytes: Int, layers: Int)? {
        var costs = [(elements: Int, bytes: Int, layers: Int)?](repeating: nil, count: nodes.count)
        var isOpen = [Bool](repeating: false, count: nodes.count)
        // By hand, as a chain of references may be as long as the file. Targets are looked up once for each node: the
        // root may have all elements of the file.
        var stack = [(node: 0, targets: targets(of: 0), next: 0)]
        isOpen[0] = true
        while let last = stack.indices.last {
            let next = stack[last].next
            if next < stack[last].targets.count {
                stack[last].next += 1
                let target = stack[last].targets[next]
                if costs[target] != nil { continue }
                if isOpen[target] { return nil }
                isOpen[target] = true
                stack.append((target, targets(of: target), 0))
                continue
            }
            let entry = stack.removeLast()
            let node = nodes[entry.node]
            var cost = (elements: node.elements, bytes: node.bytes, layers: 0)
            for target in entry.targets {
                guard let part = costs[target] else { continue }
                cost.elements = min(SVGBounds.drawn + 1, cost.elements + part.elements)
                cost.bytes = min(SVGBounds.drawnBytes + 1, cost.bytes + part.bytes)
                cost.layers = max(cost.layers, part.layers)
            }
            cost.layers += node.layers
            costs[entry.node] = cost
            isOpen[entry.node] = false
        }
        return costs[0]
    }

    private func targets(of node: Int) -> [Int] {
        nodes[node].children + nodes[node].references.compactMap { named[$0] }
    }
}
