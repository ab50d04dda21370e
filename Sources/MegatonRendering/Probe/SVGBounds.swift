internal import Foundation

/// Limits on SVGs, because librsvg cannot be interrupted and has no memory limit. One walk over the markup checks them
/// before librsvg parses it. The walk reads only tags and attributes, and refuses markup that it does not understand.
///
/// A filter primitive, a pattern tile and a group with an opacity each take a surface of their own. A chain of `use`
/// elements that reference each other doubles the drawing with each link. A dashed path of a billion units has as many
/// dashes.
enum SVGBounds {
    /// Bytes of the markup.
    static let bytes = 8 << 20
    /// Elements; and elements with those drawn through references counted each time.
    static let (elements, drawn) = (100_000, 200_000)
    /// Bytes of tags, counted each time they are drawn: 100 references to a path of 100 kB take a minute. Text counts
    /// by `cost(ofText:after:)`.
    static let drawnBytes = 32 << 20
    static let depth = 200
    /// Nested groups that are drawn separately and then composited: each takes the memory of the whole image.
    static let layers = 8
    /// Nested elements if a style sheet may draw each of them separately: more than ordinary drawings have.
    static let sheetLayers = 24
    /// Elements times the corners of lines, if markers are drawn at corners.
    static let markers = 2_000_000
    /// Dashes of all lines together, by an upper bound of their lengths.
    static let dashes = 1e6
    private static let longestName = 256

    /// - Returns: Why the SVG is refused, worded to follow "the SVG"; nil if it is accepted.
    static func validationError(_ bytes: UnsafeRawBufferPointer) -> String? {
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
    /// length: 3 kB take 0.3 s, 30 kB 7 s (librsvg 2.54.7). A text of 16 kB uses up the whole limit of an SVG.
    ///
    /// - Parameter before: Bytes that the text element already has.
    static func cost(ofText bytes: Int, after before: Int) -> Int { (2 * before + bytes) * bytes / 8 }

    /// Refuses elements whose cost is not proportional to what they draw.
    static func validationError(ofElement name: String) -> String? {
        switch name {
        case "filter": "has filters, which are not drawn: their cost has no bound"
        case "pattern": "has patterns, which are not drawn: their tiles may be of any size"
        case "include": "includes other files, which is not done"
        default: name.utf8.count > longestName ? "has a name of \(name.utf8.count) bytes" : nil
        }
    }

    /// Refuses embedded images. librsvg ignores links to external images, because data in memory has no base URL.
    static func validationError(ofImage reference: String) -> String? {
        let isEmbedded = reference.trimmingCharacters(in: .whitespacesAndNewlines).lowercased().hasPrefix("data:")
        return isEmbedded ? "has embedded images, which are not drawn: they would be decoded without limits" : nil
    }
}

/// Counts elements that are drawn through references: `use`, patterns, masks, markers, clips.
struct SVGReferences {
    /// An element with an id, which references can name, including its descendants without one.
    struct Node {
        /// Elements within it, including itself, that have no nodes of their own.
        var elements = 1
        /// Bytes of their tags, and the cost of their texts.
        var bytes = 0
        /// The deepest nesting of layers within it.
        var layers = 0
        var children: [Int] = []
        var references: [String] = []
    }

    private(set) var nodes = [Node(elements: 0)]
    private(set) var named: [String: Int] = [:]

    /// - Returns: The node of a new element: its own if it has an id, otherwise its parent's.
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
        // Readers differ in which of two elements with the same id they draw, so both count.
        if let first = named[name] {
            nodes[first].children.append(nodes.count - 1)
        } else {
            named[name] = nodes.count - 1
        }
        return nodes.count - 1
    }

    mutating func add(bytes: Int, to node: Int) { nodes[node].bytes += bytes }

    /// Elements and bytes that are drawn, each counted to at most one above its limit, and the deepest nesting of
    /// layers; nil if an element draws itself.
    func drawn() -> (elements: Int, bytes: Int, layers: Int)? {
        var costs = [(elements: Int, bytes: Int, layers: Int)?](repeating: nil, count: nodes.count)
        var isOpen = [Bool](repeating: false, count: nodes.count)
        // An explicit stack, because a chain of references can be as long as the file. Targets are resolved once for
        // each node, because the root may hold all elements of the file.
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
