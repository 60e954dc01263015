"""Frictional problems W, q, mu of rigid bodies in contact, made up at random.

Each has a solution: the contacts can all be opened at once without sliding (bodies move away from
the ground, or from the middle), which is what existence needs whatever mu.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import linalg


def frame(normal):
    """(dim, dim): the normal, then tangents."""
    normal = np.asarray(normal, float) / np.linalg.norm(normal)
    if len(normal) == 2:
        return np.array([normal, [-normal[1], normal[0]]])
    other = np.eye(3)[np.argmin(np.abs(normal))]
    first = np.cross(normal, other)
    first /= np.linalg.norm(first)
    return np.array([normal, first, np.cross(normal, first)])


def rows(axes, arm):
    """Relative velocity of the point at ``arm`` from a body's centre: (dim, 3 or 6)."""
    if len(arm) == 2:
        return np.column_stack([axes, axes @ [-arm[1], arm[0]]])
    cross = np.array([[0, arm[2], -arm[1]], [-arm[2], 0, arm[0]], [arm[1], -arm[0], 0]])
    return np.column_stack([axes, axes @ cross])


def assembled(contacts, masses, radii, free, dim):
    """W and q of contacts (i, j, point, normal from i to j), i = -1 the ground."""
    f = 3 if dim == 2 else 6
    entries = []
    for k, (i, j, point_i, point_j, normal) in enumerate(contacts):
        axes = frame(normal)
        for body, arm, sign in ((i, point_i, -1.0), (j, point_j, 1.0)):
            if body >= 0:
                block = sign * rows(axes, arm)
                a, b = np.indices(block.shape)
                entries.append((dim * k + a.ravel(), f * body + b.ravel(), block.ravel()))
    i, j, x = (np.concatenate(part) for part in zip(*entries, strict=True))
    H = sparse.csr_matrix((x, (i, j)), shape=(dim * len(contacts), f * len(masses)))
    inertia = 0.4 * masses * radii**2
    inverse = np.column_stack([masses] * dim + [inertia] * (f - dim)) ** -1.0
    W = H @ sparse.diags(inverse.ravel()) @ H.T
    return W.tocsc(), H @ free.ravel()


def free_motion(rng, bodies, dim, noise):
    v = noise * rng.normal(size=(bodies, 3 if dim == 2 else 6))
    v[:, dim - 1] -= 1.0
    return v


def measured(W, q, mu, dim, r, s=1.0):
    """The measure from its definition, contact by contact and apart from the package."""
    W, total = sparse.csr_matrix(W), 0.0
    u = W @ r + q
    for k in range(len(mu)):
        at = slice(dim * k, dim * k + dim)
        size = np.linalg.norm(W[at, at].toarray(), 2)
        push = u[at].copy()
        push[0] += s * mu[k] * np.linalg.norm(push[1:])
        z = r[at] - push / size
        length = np.linalg.norm(z[1:])
        if z[0] < 0.0 or length > mu[k] * z[0]:
            normal = max(0.0, (z[0] + mu[k] * length) / (1 + mu[k] ** 2))
            z = np.concatenate([[normal], z[1:] * (mu[k] * normal / max(length, 1e-300))])
        total += np.sum((r[at] - z) ** 2) * size**2
    return np.sqrt(total) / np.linalg.norm(q)


def stack(rng, boxes, mu=0.5, ratio=1.0, noise=0.3, tilt=0.0, corners=4):
    """Boxes on each other, four contacts (or more) a face: hyperstatic."""
    masses = ratio ** rng.random(boxes)
    contacts = []
    for k in range(boxes):
        x, y = (
            rng.uniform(0.3, 0.5, (2, corners))
            * np.array([[1, -1, 1, -1], [1, 1, -1, -1]])[:, np.arange(corners) % 4]
        )
        for c in range(corners):
            n = np.array([0.0, 0.0, 1.0]) + tilt * rng.normal(size=3)
            contacts.append(
                (k - 1, k, np.array([x[c], y[c], 0.5]), np.array([x[c], y[c], -0.5]), n)
            )
    W, q = assembled(contacts, masses, np.ones(boxes), free_motion(rng, boxes, 3, noise), 3)
    return W, q, np.full(len(contacts), mu), 3


def pyramid(rng, layers, mu=0.5, ratio=1.0, noise=0.3):
    """Planar bricks in a wall, two contacts with each brick below."""
    place, contacts, n = {}, [], 0
    for layer in range(layers):
        for k in range(layers - layer):
            place[layer, k] = n
            n += 1
    for (layer, k), j in place.items():
        below = (
            [(-1, (-0.4, 0.4))]
            if layer == 0
            else [(place[layer - 1, k], (-0.4, -0.1)), (place[layer - 1, k + 1], (0.1, 0.4))]
        )
        for side, (i, ends) in enumerate(below):
            for x in ends:
                own = x if i < 0 else x + (0.5 if side == 0 else -0.5)
                contacts.append((i, j, np.array([own, 0.25]), np.array([x, -0.25]), [0.0, 1.0]))
    masses = ratio ** rng.random(n)
    W, q = assembled(contacts, masses, 0.5 * np.ones(n), free_motion(rng, n, 2, noise), 2)
    return W, q, np.full(len(contacts), mu), 2


def spheres(rng, bodies, dim=3, mu=0.5, ratio=1.0, noise=0.3):
    """Balls or discs, near neighbours in contact, those below on the ground."""
    width = max(2, round(bodies ** (1 / dim)))
    grid = np.stack(np.meshgrid(*[np.arange(width + 1)] * dim, indexing="ij"), -1).reshape(-1, dim)
    x = grid[np.argsort(grid[:, -1], kind="stable")][:bodies] + 0.25 * rng.uniform(
        -1, 1, (bodies, dim)
    )
    x[:, -1] += 0.6
    apart = np.linalg.norm(x[:, None] - x[None], axis=-1)
    reach = 1.15
    contacts = [(i, j) for i in range(bodies) for j in range(i + 1, bodies) if apart[i, j] < reach]
    found = []
    for i, j in contacts:
        n = (x[j] - x[i]) / apart[i, j]
        found.append((i, j, 0.5 * n, -0.5 * n, n))
    up = np.eye(dim)[-1]
    found += [(-1, i, up, -0.5 * up, up) for i in range(bodies) if x[i, -1] < 1.0]
    masses = ratio ** rng.random(bodies)
    W, q = assembled(
        found, masses, 0.5 * np.ones(bodies), free_motion(rng, bodies, dim, noise), dim
    )
    return W, q, np.full(len(found), mu), dim


def crystal(rng, wide, high, mu=0.5, ratio=1.0, noise=0.3):
    """Discs in rows, each on two of the row below: every one has six neighbours."""
    row, column = np.divmod(np.arange(wide * high), wide)
    x = np.column_stack([column + 0.5 * (row % 2), np.sqrt(0.75) * row])
    apart = np.linalg.norm(x[:, None] - x[None], axis=-1)
    found = []
    for i, j in np.argwhere(np.triu(np.abs(apart - 1.0) < 1e-9)):
        n = x[j] - x[i]
        found.append((i, j, 0.5 * n, -0.5 * n, n))
    up = np.array([0.0, 1.0])
    found += [(-1, i, up, -0.5 * up, up) for i in range(wide)]
    masses = ratio ** rng.random(len(x))
    free = free_motion(rng, len(x), 2, noise)
    W, q = assembled(found, masses, np.full(len(x), 0.5), free, 2)
    return W, q, np.full(len(found), mu), 2


def chain(rng, links, mu=0.3, noise=0.5):
    """Balls above each other in a column, tied by single contacts."""
    contacts = []
    for k in range(links):
        n = np.array([0.3 * rng.normal(), 0.3 * rng.normal(), 1.0])
        n /= np.linalg.norm(n)
        contacts.append((k - 1, k, 0.5 * n, -0.5 * n, n))
    W, q = assembled(
        contacts, np.ones(links), 0.5 * np.ones(links), free_motion(rng, links, 3, noise), 3
    )
    return W, q, np.full(links, mu), 3


def capsules(rng, bodies, mu=0.7, noise=0.3):
    """Each lies on up to three below by two close contacts, 1e-3 apart in direction."""
    contacts = []
    for k in range(bodies):
        for i in rng.choice(np.arange(-1, k), size=min(k + 1, 3), replace=False):
            n = np.array([0.5 * rng.normal(), 0.5 * rng.normal(), 1.0])
            n /= np.linalg.norm(n)
            along = np.cross(n, rng.normal(size=3))
            along /= np.linalg.norm(along)
            for end in (-1.0, 1.0):
                near = n + 1e-3 * rng.normal(size=3)
                contacts.append((i, k, 0.5 * n + end * along, -0.5 * n + end * along, near))
    W, q = assembled(
        contacts, np.ones(bodies), 0.5 * np.ones(bodies), free_motion(rng, bodies, 3, noise), 3
    )
    return W, q, np.full(len(contacts), mu), 3


def elastic(rng, blocks, wide, mu=0.5, stiff=1e3, noise=0.3):
    """Blocks of masses on springs, node on node: W is regular, and sweeps crawl."""
    one, nodes = sparse.eye(wide), wide**3
    ends = sparse.diags([1.0, -1.0], [0, 1], shape=(wide - 1, wide))
    axes = [[ends.T @ ends if a == b else one for b in range(3)] for a in range(3)]
    springs = sum(sparse.kron(sparse.kron(x, y), z) for x, y, z in axes)
    masses = 10.0 ** rng.uniform(-1, 1, blocks)
    M = sparse.block_diag([m * (sparse.eye(nodes) + stiff * springs) for m in masses])
    M = sparse.kron(M, sparse.eye(3)).tocsc()
    v = noise * (rng.normal(size=(blocks, 1, 3)) + 0.1 * rng.normal(size=(blocks, nodes, 3)))
    v[..., 2] -= 1.0
    contacts = blocks * wide**2
    H = np.zeros((3 * blocks * nodes, 3 * contacts))
    for c in range(contacts):
        block, k = divmod(c, wide**2)
        near, here = frame([*(0.2 * rng.normal(size=2)), 1.0]).T, slice(3 * c, 3 * c + 3)
        above = 3 * (block * nodes + k)
        H[above : above + 3, here] += near
        if block:
            below = above - 3 * wide**2  # the upper layer of the block below
            H[below : below + 3, here] -= near
    W = H.T @ linalg.splu(M).solve(H)
    return sparse.csc_matrix(W), H.T @ v.ravel(), np.full(contacts, mu), 3


def coupled(rng, contacts, mu=0.5, rank=None, scale=1.0):
    """W = B B^T at random, each contact coupled with all; q inside of the range of W, or open."""
    n = 3 * contacts
    B = rng.normal(size=(n, rank or n))
    v = rng.normal(size=B.shape[1])
    return sparse.csc_matrix(scale * B @ B.T / n), B @ v, np.full(contacts, mu), 3


def families(rng):
    """Name and problem, of all kinds and some sizes."""
    for mu in (0.0, 0.1, 0.5, 1.0, 10.0, 1e3):
        for noise in (0.05, 0.5):
            tag = f"mu={mu:g} noise={noise:g}"
            yield f"stack 3 {tag}", stack(rng, 3, mu, noise=noise)
            yield f"stack 12 {tag}", stack(rng, 12, mu, noise=noise)
            yield f"stack 6, 9 corners {tag}", stack(rng, 6, mu, noise=noise, corners=9)
            yield f"stack 8, masses 1e6 {tag}", stack(rng, 8, mu, 1e6, noise)
            yield f"pyramid 4 {tag}", pyramid(rng, 4, mu, noise=noise)
            yield f"pyramid 10 {tag}", pyramid(rng, 10, mu, noise=noise)
            yield f"pyramid 6, masses 1e6 {tag}", pyramid(rng, 6, mu, 1e6, noise)
            yield f"spheres 30 {tag}", spheres(rng, 30, 3, mu, noise=noise)
            yield f"spheres 100 masses 1e6 {tag}", spheres(rng, 100, 3, mu, 1e6, noise)
            yield f"discs 100 {tag}", spheres(rng, 100, 2, mu, noise=noise)
            yield f"discs 30 masses 1e6 {tag}", spheres(rng, 30, 2, mu, 1e6, noise)
            yield f"chain 30 {tag}", chain(rng, 30, mu, noise)
            yield f"capsules 20 {tag}", capsules(rng, 20, mu, noise)
