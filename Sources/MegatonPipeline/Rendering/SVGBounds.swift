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
        /// The most layers in each other within it.
        var layers = 0
        var children: [Int] = []
        var references: [String] = []
    }

    private(set) var nodes = [Node(elements: 0)]
    private(set) var named: [String: Int] = [:]

    /// - Returns: the node of a new element: its own where it has a name, else its parent's.
    mutating func add(_ name: String?, _ references: [String], layers: Int, in parent: Int) -> Int {
        guard let name else {
            nodes[parent].elements += 1
            nodes[parent].references += references
            nodes[parent].layers = max(nodes[parent].layers, layers)
            return parent
        }
        nodes.append(Node(layers: layers, references: references))
        nodes[parent].children.append(nodes.count - 1)
        // Of two with one name, readers take one or the other.
        if let first = named[name] {
            nodes[first].children.append(nodes.count - 1)
        } else {
            named[name] = nodes.count - 1
        }
        return nodes.count - 1
    }

    /// How many elements are drawn, counted no further than to one beyond the limit, and the most layers in each other; nil
    /// where something is drawn within itself.
    func drawn(limit: Int) -> (elements: Int, layers: Int)? {
        var costs = [(elements: Int, layers: Int)?](repeating: nil, count: nodes.count)
        var isOpen = [Bool](repeating: false, count: nodes.count)
        // By hand, as a chain of references may be as long as the file.
        var stack = [(node: 0, next: 0)]
        isOpen[0] = true
        while let (node, next) = stack.last {
            let others = targets(of: node)
            if next < others.count {
                stack[stack.count - 1].next += 1
                let other = others[next]
                if costs[other] != nil { continue }
                if isOpen[other] { return nil }
                isOpen[other] = true
                stack.append((other, 0))
                continue
            }
            let sum = others.reduce(nodes[node].elements) { min(limit + 1, $0 + (costs[$1]?.elements ?? 0)) }
            let layers = others.map { costs[$0]?.layers ?? 0 }.max() ?? 0
            costs[node] = (min(limit + 1, sum), nodes[node].layers + layers)
            isOpen[node] = false
            stack.removeLast()
        }
        return costs[0]
    }

    private func targets(of node: Int) -> [Int] {
        nodes[node].children + nodes[node].references.compactMap { named[$0] }
    }
}
